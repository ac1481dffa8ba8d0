"""What must outlive the process: the database and the spool. The only package that knows SQL.

Work on the database is written as plain functions of a SQLAlchemy `Connection`; `Database` runs them, many in one
commit. What they mean is for `mikan_gateway.runtime` and `mikan_gateway.rendering` to say.
"""
