-- Folds placed rows into entries, each with exactly one outcome.
--
-- In: attempt, history, placed. Out: entry, one row per unique entry, with its facets.
-- Portable subset only: the same statements run on Spark.

-- A history carries no guardrail flag. An error in it is a block if the same file flags errors of that kind as
-- blocks elsewhere.
CREATE TABLE history_fold AS
SELECT
    h.ord,
    SUM(CASE WHEN h.state = 'success' THEN h.times ELSE 0 END) AS successes,
    SUM(CASE WHEN h.state = 'failure' THEN h.times ELSE 0 END) AS failures,
    SUM(CASE WHEN h.state = 'error' AND b.error_kind IS NULL THEN h.times ELSE 0 END) AS errors,
    SUM(CASE WHEN h.state = 'guardrail' OR b.error_kind IS NOT NULL THEN h.times ELSE 0 END) AS blocks,
    MIN(CASE WHEN h.state = 'success' THEN h.first_at END) AS first_success
FROM history AS h
LEFT JOIN (
    SELECT DISTINCT source, error_kind
    FROM attempt
    WHERE guardrail AND error_kind IS NOT NULL
) AS b ON h.source = b.source AND h.error_kind = b.error_kind
GROUP BY h.ord;

-- With a history, the row's own state is only its summary: what its requests met is what counts. An attack that
-- made no request has not failed.
CREATE TABLE told AS
SELECT
    p.entry_key,
    p.is_attack,
    a.ord,
    a.attack,
    a.requests,
    a.state = 'success' AS succeeded,
    CASE
        WHEN p.is_attack AND a.requests = 0 THEN FALSE
        WHEN h.ord IS NULL THEN a.state = 'failure'
        WHEN h.failures > 0 THEN TRUE
        ELSE a.state = 'failure' AND (h.successes > 0 OR h.errors + h.blocks = 0)
    END AS failed,
    a.state = 'error' OR COALESCE(h.errors, 0) > 0 AS errored,
    a.state = 'guardrail' OR COALESCE(h.blocks, 0) > 0 AS blocked,
    CASE WHEN h.ord IS NOT NULL THEN h.blocks WHEN a.guardrail THEN 1 WHEN a.guardrail IS NOT NULL THEN 0 END AS blocks,
    COALESCE(h.first_success, a.requests) AS success_at
FROM placed AS p
INNER JOIN attempt AS a ON p.ord = a.ord
LEFT JOIN history_fold AS h ON p.ord = h.ord;

CREATE TABLE folded AS
SELECT
    entry_key,
    COALESCE(MIN(CASE WHEN is_attack THEN NULL ELSE ord END), MIN(ord)) AS head,
    BOOL_OR(succeeded AND NOT is_attack) AS initial,
    BOOL_OR(succeeded) AS succeeded,
    BOOL_OR(failed) AS failed,
    BOOL_OR(errored) AS errored,
    BOOL_OR(blocked) AS blocked,
    BOOL_OR(is_attack) AS attacked,
    BOOL_OR(NOT is_attack) AS has_standard,
    SUM(requests) AS requests,
    CASE WHEN MIN(attack) <> MAX(attack) THEN 'several attacks' ELSE MIN(attack) END AS attack_name
FROM told
GROUP BY entry_key;

CREATE TABLE entry AS
SELECT
    f.entry_key,
    a.source,
    f.initial,
    f.attacked,
    f.has_standard,
    f.requests,
    f.blocked AS guardrail_any,
    f.attack_name,
    $outcome AS outcome,
    $facets
FROM folded AS f
INNER JOIN attempt AS a ON f.head = a.ord;
