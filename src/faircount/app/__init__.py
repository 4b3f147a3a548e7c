"""Commands as library calls: options by keyword, a result out. Nothing is printed here, and no exit code is known."""
