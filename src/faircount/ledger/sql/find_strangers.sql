-- Finds rows with an id that ends like an attack row's, of whose entry no row is in the same file.
--
-- In: attempt, ghost. Out: rows (ord, own_id, parent_id).
SELECT a.ord, a.own_id, a.parent_id
FROM attempt AS a
LEFT JOIN (
    SELECT DISTINCT source, COALESCE(own_id, parent_id) AS id
    FROM attempt
    WHERE mark = 0
    UNION
    SELECT source, id
    FROM ghost
) AS p ON a.source = p.source AND a.parent_id = p.id
WHERE a.mark = 2 AND a.own_id IS NOT NULL AND p.id IS NULL
