"""`results compare`: two or more result files in, what differs between them on the same entries out."""
