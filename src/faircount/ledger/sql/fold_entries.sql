-- Folds placed rows into entries, each with exactly one outcome.
--
-- In: attempt, history, marked, resolved, blocking_kind, source_with_history. Out: counted_row, one row per row that counts, and entry, one row per unique entry, with its facets.

-- Sums are cast: engines give them types of their own, some of which no file can hold.

-- A history carries no guardrail flag. An error in it is a block if the same file flags errors of that kind as
-- blocks elsewhere.
CREATE TABLE history_fold AS
SELECT
    h.ord,
    CAST(SUM(CASE WHEN h.state = $success THEN h.times ELSE 0 END) AS BIGINT) AS successes,
    CAST(SUM(CASE WHEN h.state = $failure THEN h.times ELSE 0 END) AS BIGINT) AS failures,
    CAST(SUM(CASE WHEN h.state = $error AND b.error_kind IS NULL THEN h.times ELSE 0 END) AS BIGINT) AS errors,
    CAST(SUM(CASE WHEN h.state = $guardrail OR b.error_kind IS NOT NULL THEN h.times ELSE 0 END) AS BIGINT) AS blocks,
    MIN(CASE WHEN h.state = $success THEN h.first_at END) AS first_success,
    CAST(SUM(h.times) AS BIGINT) AS items
FROM history AS h
LEFT JOIN blocking_kind AS b ON h.source = b.source AND h.error_kind = b.error_kind
GROUP BY h.ord;

-- With a history, the row's own state is only its summary: what its requests met is what counts. An attack that
-- made no request has not failed. A case of a run is the other way round: its verdict is the one over all its attempts,
-- made by the rule that the case names, and they stay as they are, to show how steady it is.
--
-- `lost` requests ended in an error. Where rows have histories, an attack that raised has the number of requests
-- before that one. Older versions wrote 1 whatever it was, so that it is unknown.
CREATE TABLE counted_row AS
SELECT
    COALESCE(r.entry_key, $entries_per_run * a.origin_key + $half_of_them + a.entry_id) AS entry_key,
    a.is_attack,
    a.ord,
    a.source,
    a.mark,
    a.parent_id,
    a.own_id,
    a.text_hash,
    a.response_hash,
    a.attack,
    a.requests,
    a.response_time,
    a.state,
    a.answer,
    a.error_kind,
    a.error_text,
    a.state = $success AS succeeded,
    CASE
        WHEN a.is_attack AND a.requests = 0 THEN FALSE
        WHEN a.mark = $task THEN a.state = $failure
        WHEN h.ord IS NULL THEN a.state = $failure
        WHEN h.failures > 0 THEN TRUE
        ELSE a.state = $failure AND (h.successes > 0 OR h.errors + h.blocks = 0)
    END AS failed,
    a.state = $error OR (a.mark <> $task AND COALESCE(h.errors, 0) > 0) AS errored,
    a.state = $guardrail OR (a.mark <> $task AND COALESCE(h.blocks, 0) > 0) AS blocked,
    CASE WHEN h.ord IS NOT NULL THEN h.blocks WHEN a.guardrail THEN 1 WHEN a.guardrail IS NOT NULL THEN 0 END AS blocks,
    COALESCE(h.first_success, a.requests) AS success_at,
    CASE WHEN a.mark = $task THEN COALESCE(h.successes + h.failures, 0) END AS tries,
    CASE WHEN a.mark = $task THEN COALESCE(h.successes, 0) END AS tries_won,
    COALESCE(a.mark = $task AND h.first_success < h.items, FALSE) AS continued,
    CASE
        WHEN h.ord IS NOT NULL THEN LEAST(h.errors, a.requests)
        WHEN a.state = $error AND NOT (a.is_attack AND s.source IS NOT NULL) THEN a.requests
        ELSE 0
    END AS lost,
    h.ord IS NULL AND a.state = $error AND a.requests > CASE WHEN a.is_attack THEN 0 ELSE 1 END
    AND NOT (a.is_attack AND s.source IS NOT NULL) AS lost_unknown
FROM marked AS a
LEFT JOIN resolved AS r ON a.ord = r.ord
LEFT JOIN history_fold AS h ON a.ord = h.ord
LEFT JOIN source_with_history AS s ON a.source = s.source
WHERE r.kept IS NULL OR r.kept;

-- What is counted about an entry: its outcome, whether a standard attempt succeeded, and whether any was blocked.
CREATE TABLE entry AS
SELECT
    f.entry_key,
    f.first_ord,
    a.source,
    f.has_standard,
    f.requests,
    f.attack_name,
    a.family,
    f.outcome,
    f.initial_success,
    f.blocked AS guardrail_any,
    $facets
FROM (
    SELECT f.*, CAST($outcome AS TINYINT) AS outcome
    FROM (
        SELECT
            entry_key,
            MIN(ord) AS first_ord,
            COALESCE(MIN(CASE WHEN is_attack THEN NULL ELSE ord END), MIN(ord)) AS head,
            BOOL_OR(succeeded AND NOT is_attack) AS initial_success,
            BOOL_OR(succeeded) AS succeeded,
            BOOL_OR(failed) AS failed,
            BOOL_OR(errored) AS errored,
            BOOL_OR(blocked) AS blocked,
            BOOL_OR(NOT is_attack) AS has_standard,
            CAST(SUM(requests) AS BIGINT) AS requests,
            CASE WHEN MIN(attack) <> MAX(attack) THEN $several_attacks ELSE MIN(attack) END AS attack_name
        FROM counted_row
        GROUP BY entry_key
    ) AS f
) AS f
INNER JOIN attempt AS a ON f.head = a.ord;
