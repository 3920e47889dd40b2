-- The service's role and its database, made at the first start of PostgreSQL. The role owns its database and nothing else.
\set password `cat /run/secrets/database-password`
CREATE ROLE fuelroute LOGIN PASSWORD :'password';
CREATE ROLE fuelroute_service NOLOGIN;
GRANT fuelroute_service TO fuelroute;
CREATE DATABASE fuelroute OWNER fuelroute ENCODING 'UTF8' TEMPLATE template0;
