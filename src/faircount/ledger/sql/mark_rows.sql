-- Finds for every row the run it comes from, the id of its entry, and whether it is part of a dynamic attack.
--
-- In: attempt (one row per recorded line), origin_key (source, origin -> the run that a row comes from), ghost (ids that
--     rows of other parts have).
-- Out: marked (attempt with origin_key, is_attack and entry_id).

-- An id that ends like an attack row's, on a row that names no attack, belongs to an attack only if the entry
-- that it would belong to exists in the same file.
CREATE TABLE named_parent AS
SELECT DISTINCT source, id
FROM (
    SELECT source, COALESCE(own_id, parent_id) AS id
    FROM attempt
    WHERE mark = 0
    UNION ALL
    SELECT source, id
    FROM ghost
) AS named
WHERE id IN (SELECT parent_id FROM attempt WHERE mark = 2);

CREATE VIEW marked AS
SELECT
    a.*,
    k.origin_key,
    a.mark = 1 OR (a.mark = 2 AND p.id IS NOT NULL) AS is_attack,
    CASE WHEN a.mark = 2 AND p.id IS NULL THEN COALESCE(a.own_id, a.parent_id) ELSE a.parent_id END AS entry_id
FROM attempt AS a
INNER JOIN origin_key AS k ON a.source = k.source AND COALESCE(a.result_origin, a.source_file, 0) = k.origin
LEFT JOIN named_parent AS p ON a.mark = 2 AND a.source = p.source AND a.parent_id = p.id;
