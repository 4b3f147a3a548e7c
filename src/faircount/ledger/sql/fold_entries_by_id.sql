-- Folds rows into entries by their id, for definitions by which rows of one id merge whatever they hold: any truthy
-- verdict is a success, an entry is an error only if all its rows are, and a guardrail trigger is an error.
--
-- In: attempt, source_path. Out: counted_row and entry, with the columns that the other fold gives.

CREATE TABLE counted_row AS
SELECT
    MIN(a.ord) OVER (PARTITION BY a.parent_id, COALESCE(a.result_origin, $unnamed_origin)) AS entry_key,
    a.mark IN (1, 2) AS is_attack,
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
    a.truthy AS succeeded,
    a.errored,
    COALESCE(a.guardrail, FALSE) AS blocked,
    CASE WHEN a.guardrail THEN 1 ELSE 0 END AS blocks,
    a.requests AS success_at
FROM attempt AS a
INNER JOIN source_path AS s ON a.source = s.source;

CREATE TABLE folded AS
SELECT
    entry_key,
    COALESCE(MIN(CASE WHEN is_attack THEN NULL ELSE ord END), MIN(ord)) AS head,
    MIN(ord) AS first_ord,
    BOOL_OR(succeeded AND NOT is_attack) AS initial_success,
    BOOL_OR(succeeded) AS succeeded,
    BOOL_AND(errored) AS errored,
    BOOL_AND(blocked) AS all_blocked,
    BOOL_OR(blocked) AS guardrail_any,
    BOOL_OR(NOT is_attack) AS has_standard,
    CAST(SUM(requests) AS BIGINT) AS requests,
    CASE WHEN MIN(attack) <> MAX(attack) THEN $several_attacks ELSE MIN(attack) END AS attack_name
FROM counted_row
GROUP BY entry_key;

CREATE TABLE entry AS
SELECT
    f.entry_key,
    f.first_ord,
    b.source,
    f.has_standard,
    f.requests,
    f.attack_name,
    a.family,
    f.outcome,
    f.initial_success,
    f.guardrail_any,
    $facets
FROM (
    SELECT
        f.*,
        CAST(
            CASE
                WHEN f.succeeded THEN $success
                WHEN f.errored AND f.all_blocked THEN $guardrail
                WHEN f.errored THEN $error
                ELSE $failure
            END AS TINYINT
        ) AS outcome
    FROM folded AS f
) AS f
INNER JOIN attempt AS a ON f.head = a.ord
INNER JOIN attempt AS b ON f.first_ord = b.ord;
