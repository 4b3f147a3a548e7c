"""A target module as spikee knows them: a function that gets a text and returns one."""


def process_input(input_text: str, system_message: str | None = None, target_options: str | None = None) -> str:
    """Return the words in capitals, or as the options say."""
    del system_message
    return input_text.lower() if target_options == "quiet" else input_text.upper()
