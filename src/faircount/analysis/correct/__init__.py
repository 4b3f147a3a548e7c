"""Success rates corrected for the judge: what is known of its errors in, the rate behind its verdicts out."""
