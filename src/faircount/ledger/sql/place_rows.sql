-- Decides which entry every row belongs to, and which rows tell nothing new.
--
-- In: attempt (one row per recorded line), origin_key (source, origin -> the run that a row comes from),
--     source_preference (whose verdict stands when several files tell of the same attempt).
-- Out: placed (ord, entry_key, is_attack), and row_story, which remembers why a row was left out or kept apart.
-- Portable subset only: the same statements run on Spark.

-- An id that ends like an attack row's, on a row that names no attack, belongs to an attack only if the entry
-- that it would belong to exists in the same file.
CREATE TABLE marked AS
SELECT
    a.ord,
    a.source,
    k.origin_key,
    a.mark = 1 OR (a.mark = 2 AND p.own_id IS NOT NULL) AS is_attack,
    CASE WHEN a.mark = 2 AND p.own_id IS NULL THEN a.own_id ELSE a.parent_id END AS entry_id
FROM attempt AS a
INNER JOIN origin_key AS k ON a.source = k.source AND COALESCE(a.result_origin, a.source_file, '') = k.origin
LEFT JOIN (
    SELECT DISTINCT source, own_id
    FROM attempt
    WHERE mark = 0 AND own_id IN (SELECT parent_id FROM attempt WHERE mark = 2)
) AS p ON a.mark = 2 AND a.source = p.source AND a.parent_id = p.own_id;

CREATE TABLE grouped AS
SELECT
    origin_key,
    entry_id,
    MIN(ord) AS first_ord,
    COUNT(CASE WHEN is_attack THEN NULL ELSE 1 END) AS standards,
    COUNT(CASE WHEN is_attack THEN 1 END) AS attacks
FROM marked
GROUP BY origin_key, entry_id;

-- Only entries with more than one row of a kind can hold repeated rows or several cases under one id.
CREATE TABLE suspect AS
SELECT
    m.ord,
    m.source,
    m.origin_key,
    m.entry_id,
    m.is_attack,
    a.text_crc,
    a.objective_crc,
    a.decision,
    $case_signature AS signature,
    ROW_NUMBER() OVER (
        PARTITION BY
            m.source, m.origin_key, m.entry_id, m.is_attack, a.attack, a.text_crc, a.response_crc, a.objective_crc,
            a.response_time, a.requests, a.error_text, a.state, $case_signature
        ORDER BY m.ord
    ) AS copy,
    FIRST_VALUE(m.source) OVER (
        PARTITION BY
            m.origin_key, m.entry_id, m.is_attack, a.attack, a.text_crc, a.response_crc, a.response_time, a.requests,
            a.error_text, $case_signature
        ORDER BY s.preference DESC, m.source DESC
    ) AS preferred_source,
    FIRST_VALUE(a.decision) OVER (
        PARTITION BY
            m.origin_key, m.entry_id, m.is_attack, a.attack, a.text_crc, a.response_crc, a.response_time, a.requests,
            a.error_text, $case_signature
        ORDER BY s.preference DESC, m.source DESC
    ) AS preferred_decision
FROM marked AS m
INNER JOIN grouped AS g ON m.origin_key = g.origin_key AND m.entry_id = g.entry_id
INNER JOIN attempt AS a ON m.ord = a.ord
INNER JOIN source_preference AS s ON m.source = s.source
WHERE g.standards > 1 OR g.attacks > 1;

CREATE TABLE row_story AS
SELECT
    ord,
    source,
    origin_key,
    entry_id,
    is_attack,
    text_crc,
    objective_crc,
    signature,
    CASE
        WHEN source <> preferred_source AND decision IS NOT DISTINCT FROM preferred_decision THEN 'told elsewhere'
        WHEN source <> preferred_source THEN 'judged again elsewhere'
        WHEN copy > 1 THEN 'repeated'
        ELSE 'kept'
    END AS story
FROM suspect;

-- A case is an id with one text and one set of facets.
CREATE TABLE standard_case AS
SELECT origin_key, entry_id, text_crc, signature, MIN(ord) AS case_ord
FROM row_story
WHERE story = 'kept' AND NOT is_attack
GROUP BY origin_key, entry_id, text_crc, signature;

-- An attack row belongs to the case that it names as its objective, else to the one with its facets, else to the
-- last one before it.
CREATE TABLE attack_case AS
SELECT ord, case_ord
FROM (
    SELECT
        a.ord,
        c.case_ord,
        ROW_NUMBER() OVER (
            PARTITION BY a.ord
            ORDER BY
                CASE WHEN c.text_crc = a.objective_crc THEN 0 ELSE 1 END,
                CASE WHEN c.signature = a.signature THEN 0 ELSE 1 END,
                CASE WHEN c.case_ord < a.ord THEN 0 ELSE 1 END,
                c.case_ord DESC
        ) AS choice
    FROM row_story AS a
    INNER JOIN standard_case AS c ON a.origin_key = c.origin_key AND a.entry_id = c.entry_id
    WHERE a.story = 'kept' AND a.is_attack
) AS ranked
WHERE choice = 1;

CREATE TABLE orphan_case AS
SELECT
    ord,
    MIN(ord) OVER (PARTITION BY origin_key, entry_id, objective_crc, signature) AS case_ord
FROM row_story
WHERE story = 'kept' AND is_attack AND ord NOT IN (SELECT ord FROM attack_case);

CREATE TABLE every_case AS
SELECT origin_key, entry_id, case_ord
FROM standard_case
UNION
SELECT r.origin_key, r.entry_id, o.case_ord
FROM orphan_case AS o
INNER JOIN row_story AS r ON o.ord = r.ord;

CREATE TABLE placed AS
SELECT
    m.ord,
    m.is_attack,
    COALESCE(s.case_ord, a.case_ord, o.case_ord, g.first_ord) AS entry_key
FROM marked AS m
INNER JOIN grouped AS g ON m.origin_key = g.origin_key AND m.entry_id = g.entry_id
LEFT JOIN row_story AS r ON m.ord = r.ord
LEFT JOIN standard_case AS s
    ON
        NOT r.is_attack
        AND r.origin_key = s.origin_key
        AND r.entry_id = s.entry_id
        AND r.text_crc = s.text_crc
        AND r.signature = s.signature
LEFT JOIN attack_case AS a ON m.ord = a.ord
LEFT JOIN orphan_case AS o ON m.ord = o.ord
WHERE r.ord IS NULL OR r.story = 'kept';
