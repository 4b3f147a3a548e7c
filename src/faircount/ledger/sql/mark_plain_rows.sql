-- What mark_rows.sql does, for the rows of one run that all say whether they are part of a dynamic attack: no joins.
--
-- In: attempt. Out: marked.
CREATE VIEW marked AS
SELECT a.*, 0 AS origin_key, a.mark = 1 AS is_attack, a.parent_id AS entry_id
FROM attempt AS a;
