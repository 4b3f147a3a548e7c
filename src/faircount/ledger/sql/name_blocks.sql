-- Finds what the rows of a source tell of its other rows.
--
-- In: attempt, history. Out: blocking_kind, the kinds of error that a source flags as blocks, and source_with_history.
CREATE TABLE blocking_kind AS
SELECT DISTINCT source, error_kind
FROM attempt
WHERE guardrail AND error_kind IS NOT NULL;

CREATE TABLE source_with_history AS
SELECT DISTINCT source
FROM history;
