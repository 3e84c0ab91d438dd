#!/bin/bash
# Creates a database and a role for each service. The PostgreSQL image runs it if its volume is empty.
set -euo pipefail
source /secrets/env
for service in catalog licensing billing notifier; do
  password=${service}_password
  psql --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --set service="$service" --set password="${!password}" <<'SQL'
    create role :"service" login password :'password';
    create database :"service" owner :"service" encoding 'UTF8' lc_collate 'C' lc_ctype 'C.UTF-8' template template0;
    revoke all on database :"service" from public;
SQL
done
