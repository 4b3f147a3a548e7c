-- Decides which rows of suspected entries add nothing new, and to which of several cases the others belong.
--
-- In: marked (one row per recorded line, with its run, its entry's id and whether it is part of a dynamic attack),
--     suspected (entries with several rows of a kind), source_preference (whose verdict stands when several files record the same attempt).
-- Out: row_history, which remembers why a row was left out or kept apart, and resolved (ord -> kept, entry_key) for
--     those rows alone.

CREATE TABLE suspect AS
SELECT
    a.ord,
    a.source,
    a.origin_key,
    a.entry_id,
    a.is_attack,
    a.text_hash,
    a.objective_hash,
    a.decision,
    $case_signature AS signature,
    ROW_NUMBER() OVER (
        PARTITION BY
            a.source, a.origin_key, a.entry_id, a.is_attack, a.attack, a.text_hash, a.response_hash, a.objective_hash,
            a.response_time, a.requests, a.error_text, a.state, $case_signature
        ORDER BY a.ord
    ) AS copy,
    FIRST_VALUE(a.source) OVER (
        PARTITION BY
            a.origin_key, a.entry_id, a.is_attack, a.attack, a.text_hash, a.response_hash, a.response_time, a.requests,
            a.error_text, $case_signature
        ORDER BY s.preference DESC, a.source DESC, a.ord
    ) AS preferred_source,
    FIRST_VALUE(a.decision) OVER (
        PARTITION BY
            a.origin_key, a.entry_id, a.is_attack, a.attack, a.text_hash, a.response_hash, a.response_time, a.requests,
            a.error_text, $case_signature
        ORDER BY s.preference DESC, a.source DESC, a.ord
    ) AS preferred_decision
FROM marked AS a
INNER JOIN suspected AS g ON a.origin_key = g.origin_key AND a.entry_id = g.entry_id
INNER JOIN source_preference AS s ON a.source = s.source;

CREATE TABLE row_history AS
SELECT
    ord,
    source,
    origin_key,
    entry_id,
    is_attack,
    text_hash,
    objective_hash,
    signature,
    CASE
        WHEN source <> preferred_source AND decision IS NOT DISTINCT FROM preferred_decision THEN 'recorded elsewhere'
        WHEN source <> preferred_source THEN 'judged again elsewhere'
        WHEN copy > 1 THEN 'repeated'
        ELSE 'kept'
    END AS status
FROM suspect;

-- A case is an id with one text and one set of facets.
CREATE TABLE standard_case AS
SELECT origin_key, entry_id, text_hash, signature, MIN(ord) AS case_ord
FROM row_history
WHERE status = 'kept' AND NOT is_attack
GROUP BY origin_key, entry_id, text_hash, signature;

-- An attack row belongs to a case that it names as its objective and whose facets it has, else to one that it names,
-- else to one with its facets, else to any. Of several it belongs to the last one before it, else to the last. Each is
-- looked up by itself: one id may have thousands of both, and pairs of them would be too many.
CREATE TABLE attack_case AS
SELECT ord, case_ord
FROM (
    SELECT
        ord,
        is_case,
        COALESCE(
            CASE WHEN named IS NOT NULL THEN MAX(seen) OVER named_alike END,
            CASE WHEN named IS NOT NULL THEN MAX(seen) OVER (PARTITION BY origin_key, entry_id, named, signature) END,
            CASE WHEN named IS NOT NULL THEN MAX(seen) OVER named_so END,
            CASE WHEN named IS NOT NULL THEN MAX(seen) OVER (PARTITION BY origin_key, entry_id, named) END,
            MAX(seen) OVER alike,
            MAX(seen) OVER (PARTITION BY origin_key, entry_id, signature),
            MAX(seen) OVER any_case,
            MAX(seen) OVER (PARTITION BY origin_key, entry_id)
        ) AS case_ord
    FROM (
        SELECT origin_key, entry_id, text_hash AS named, signature, case_ord AS ord, case_ord AS seen, TRUE AS is_case
        FROM standard_case
        UNION ALL
        SELECT origin_key, entry_id, objective_hash, signature, ord, NULL, FALSE
        FROM row_history
        WHERE status = 'kept' AND is_attack
    ) AS case_or_row
    WINDOW
        named_alike AS (PARTITION BY origin_key, entry_id, named, signature ORDER BY ord ROWS UNBOUNDED PRECEDING),
        named_so AS (PARTITION BY origin_key, entry_id, named ORDER BY ord ROWS UNBOUNDED PRECEDING),
        alike AS (PARTITION BY origin_key, entry_id, signature ORDER BY ord ROWS UNBOUNDED PRECEDING),
        any_case AS (PARTITION BY origin_key, entry_id ORDER BY ord ROWS UNBOUNDED PRECEDING)
) AS looked_up
WHERE NOT is_case AND case_ord IS NOT NULL;

CREATE TABLE orphan_case AS
SELECT
    ord,
    MIN(ord) OVER (PARTITION BY origin_key, entry_id, objective_hash, signature) AS case_ord
FROM row_history
WHERE status = 'kept' AND is_attack AND ord NOT IN (SELECT ord FROM attack_case);

CREATE TABLE every_case AS
SELECT origin_key, entry_id, case_ord
FROM standard_case
UNION
SELECT r.origin_key, r.entry_id, o.case_ord
FROM orphan_case AS o
INNER JOIN row_history AS r ON o.ord = r.ord;

-- The key of such a case is the negative of its first row's place: it cannot meet the key of a plain entry.
CREATE TABLE resolved AS
SELECT
    r.ord,
    r.status = 'kept' AS kept,
    -COALESCE(s.case_ord, a.case_ord, o.case_ord) AS entry_key
FROM row_history AS r
LEFT JOIN standard_case AS s
    ON
        NOT r.is_attack
        AND r.origin_key = s.origin_key
        AND r.entry_id = s.entry_id
        AND r.text_hash = s.text_hash
        AND r.signature = s.signature
LEFT JOIN attack_case AS a ON r.ord = a.ord
LEFT JOIN orphan_case AS o ON r.ord = o.ord;
