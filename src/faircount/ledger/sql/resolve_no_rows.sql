-- What resolve_rows.sql makes where no entry is suspected: every row is kept, and every id is one case.
CREATE TABLE row_history (ord BIGINT, status VARCHAR(30));

CREATE TABLE every_case (origin_key INTEGER, entry_id INTEGER, case_ord BIGINT);

CREATE TABLE resolved (ord BIGINT, kept BOOLEAN, entry_key BIGINT);
