"""The page: results explored in the browser, on this machine. A thin layer over `ResultSet`; it only reads.

Nothing here is imported unless `faircount view` runs.
"""
