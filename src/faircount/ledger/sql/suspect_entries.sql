-- Finds the entries that may hold repeated rows, or several cases under one id: those with several rows of a kind.
--
-- In: marked. Out: suspected.
CREATE TABLE suspected AS
SELECT origin_key, entry_id
FROM marked
GROUP BY origin_key, entry_id
HAVING COUNT(CASE WHEN is_attack THEN NULL ELSE 1 END) > 1 OR COUNT(CASE WHEN is_attack THEN 1 END) > 1;
