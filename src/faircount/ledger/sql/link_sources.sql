-- Counts, for ordered pairs of sources, how many rows of the first stand in the second.
--
-- In: attempt, linked (the pairs). Out: rows (source, other, found, found_with_verdict, found_timed), for pairs that
--     share anything.
WITH first_rows AS MATERIALIZED (
    SELECT a.*, l.other
    FROM attempt AS a
    INNER JOIN linked AS l ON a.source = l.source
)

SELECT
    a.source,
    a.other,
    COUNT(DISTINCT a.ord) AS found,
    COUNT(DISTINCT CASE WHEN a.decision IS NOT DISTINCT FROM b.decision THEN a.ord END) AS found_with_verdict,
    COUNT(DISTINCT CASE WHEN a.response_time IS NOT NULL THEN a.ord END) AS found_timed
FROM first_rows AS a
INNER JOIN attempt AS b
    ON
        a.other = b.source
        AND a.text_hash = b.text_hash
        AND a.response_hash = b.response_hash
        AND a.parent_id = b.parent_id
        AND a.requests = b.requests
        AND a.mark = b.mark
        AND a.response_time IS NOT DISTINCT FROM b.response_time
        AND a.error_text IS NOT DISTINCT FROM b.error_text
        AND a.attack IS NOT DISTINCT FROM b.attack
GROUP BY a.source, a.other
