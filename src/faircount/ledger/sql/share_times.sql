-- Finds the ordered pairs of sources that share a row with its response time.
--
-- In: attempt. Out: rows (source, other).
SELECT DISTINCT a.source, b.source AS other
FROM attempt AS a
INNER JOIN attempt AS b
    ON
        a.source <> b.source
        AND a.response_time = b.response_time
        AND a.text_hash = b.text_hash
        AND a.response_hash = b.response_hash
        AND a.parent_id = b.parent_id
