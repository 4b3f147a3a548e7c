"""Results in a notebook: read, summarised, chosen and handed to data frames. Shows itself; never prints or writes."""
