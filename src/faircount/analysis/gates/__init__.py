"""Gates: may this build ship? `--fail-on` parsed, judged on figures that were counted before, and said in sentences.

Nothing here reads a result file, counts an entry or writes a file.
"""
