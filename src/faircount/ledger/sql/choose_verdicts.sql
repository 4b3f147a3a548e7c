-- Lets chosen judges decide: by them alone, what became of each row, and of each request of its history.
--
-- In: attempt_numbers, history_numbers and verdict_numbers, as they were read. Out: judged_row, with the decision and
-- state of every row, and judged_history, which takes the place of the history. A row without an answer stays an error
-- or a block. A row, or a request, that none of the chosen judges judged is unjudged.

CREATE OR REPLACE TABLE latest_decision AS
SELECT line, attempt, $decide AS decision
FROM (
    SELECT line, attempt, judge, ARG_MAX(decision, given) AS decision
    FROM verdict_numbers
    WHERE $chosen
    GROUP BY line, attempt, judge
) AS latest
GROUP BY line, attempt;

-- Judges together decide on each request, and one success is enough, if each of them judged the requests: a row whose
-- requests are made into one result by another rule, a case of a run of tests, has a verdict of each judge as a whole.
CREATE OR REPLACE TABLE judged_row AS
SELECT
    j.line,
    CAST(j.decision AS TINYINT) AS decision,
    CAST(
        CASE
            WHEN j.state IN ($error, $guardrail) THEN j.state
            WHEN j.decision = 1 THEN $success
            WHEN j.decision = 0 THEN $failure
            ELSE $unjudged
        END AS TINYINT
    ) AS state,
    j.judged
FROM (
    SELECT
        a.line,
        a.state,
        v.line IS NOT NULL OR ($own) AS judged,
        CASE
            WHEN v.line IS NULL THEN CASE WHEN $own THEN a.decision ELSE -1 END
            WHEN a.state IN ($error, $guardrail) THEN a.decision
            WHEN $together AND a.mark <> $task AND v.each_judged_requests THEN COALESCE(r.decision, -1)
            ELSE COALESCE(s.decision, -1)
        END AS decision
    FROM attempt_numbers AS a
    LEFT JOIN (
        SELECT
            line,
            COUNT(DISTINCT CASE WHEN attempt > 0 THEN judge END) = COUNT(DISTINCT judge) AS each_judged_requests
        FROM verdict_numbers
        GROUP BY line
    ) AS v ON a.line = v.line
    LEFT JOIN latest_decision AS s ON a.line = s.line AND s.attempt = 0
    LEFT JOIN (SELECT line, MAX(decision) AS decision FROM latest_decision WHERE attempt > 0 GROUP BY line) AS r ON a.line = r.line
) AS j;

CREATE OR REPLACE TABLE judged_history AS
WITH requests AS (
    SELECT line, COUNT(*) AS judged FROM latest_decision WHERE attempt > 0 GROUP BY line
)

SELECT h.line, h.state, h.error_kind, h.times, h.first_at
FROM history_numbers AS h
INNER JOIN judged_row AS j ON h.line = j.line
LEFT JOIN requests AS r ON h.line = r.line
WHERE h.state IN ($error, $guardrail) OR (r.line IS NULL AND j.judged AND j.decision >= 0)
UNION ALL
SELECT
    line,
    CAST(CASE decision WHEN 1 THEN $success WHEN 0 THEN $failure ELSE $unjudged END AS TINYINT) AS state,
    0 AS error_kind,
    COUNT(*) AS times,
    MIN(attempt) AS first_at
FROM latest_decision
WHERE attempt > 0
GROUP BY line, decision
UNION ALL
SELECT
    h.line,
    CAST($unjudged AS TINYINT) AS state,
    0 AS error_kind,
    CAST(SUM(h.times) - COALESCE(MAX(r.judged), 0) AS BIGINT) AS times,
    1 AS first_at
FROM history_numbers AS h
INNER JOIN judged_row AS j ON h.line = j.line
LEFT JOIN requests AS r ON h.line = r.line
WHERE h.state NOT IN ($error, $guardrail) AND (r.line IS NOT NULL OR NOT j.judged OR j.decision < 0)
GROUP BY h.line
HAVING SUM(h.times) > COALESCE(MAX(r.judged), 0);
