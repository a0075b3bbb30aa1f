-- Group roles: who may do what in a ledger's tables. Which rights those are stands in rights.py.

-- name: describe_place
-- Where the tables are, and whether this user may grant rights on them.
SELECT current_database(), n.nspname::text, pg_has_role(c.relowner, 'USAGE')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass('indelible_effects')

-- name: find_roles
-- Those of some roles that are there.
SELECT rolname::text FROM pg_roles WHERE rolname = ANY (%(names)s::text[])

-- name: create_role
-- A role that logins become members of.
CREATE ROLE {role} NOLOGIN

-- name: enter_schema
-- Lets roles name the tables.
GRANT USAGE ON SCHEMA {schema} TO {roles}

-- name: revoke_all
-- Takes away what an older version granted.
REVOKE ALL ON {tables} FROM {roles}

-- name: grant
-- Grants rights on tables.
GRANT {rights} ON {tables} TO {roles}
