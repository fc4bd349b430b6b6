-- The statements of the first log, which all tables of a schema shared, for the tables shared_one and shared_two.

LOCK TABLE ONLY "public"."shared_one" IN SHARE ROW EXCLUSIVE MODE;
CREATE SCHEMA IF NOT EXISTS "shared log";
CREATE TABLE IF NOT EXISTS "shared log".changes (
	id bigint GENERATED ALWAYS AS IDENTITY,
	xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
	source text COLLATE "C" NOT NULL,
	key jsonb,
	op "char" NOT NULL,
	before jsonb
);
DO $setpoint0$ BEGIN
	IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = '"shared log"."changes"'::regclass AND attname = 'oldest') THEN
		ALTER TABLE "shared log".changes ADD COLUMN oldest xid8;
		ALTER TABLE "shared log".changes ALTER COLUMN oldest SET DEFAULT pg_snapshot_xmin(pg_current_snapshot());
	END IF;
	IF (SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
			WHERE i.indrelid = '"shared log"."changes"'::regclass AND c.relname IN ('changes_by_transaction', 'changes_by_key')) < 2 THEN
		CREATE INDEX IF NOT EXISTS changes_by_transaction ON "shared log".changes (source, xid, id);
		CREATE INDEX IF NOT EXISTS changes_by_key ON "shared log".changes (source, key, id);
	END IF;
END $setpoint0$;
CREATE TABLE IF NOT EXISTS "shared log".trimmed (source text COLLATE "C" PRIMARY KEY, xid xid8 NOT NULL);
INSERT INTO "shared log".trimmed VALUES ('"public"."shared_one"', pg_current_xact_id()) ON CONFLICT DO NOTHING;
CREATE TABLE IF NOT EXISTS "shared log".epochs (base bigint NOT NULL);
CREATE UNLOGGED TABLE IF NOT EXISTS "shared log".epoch (base bigint NOT NULL, system bigint NOT NULL);
WITH first AS (INSERT INTO "shared log".epochs SELECT 0 WHERE NOT EXISTS (SELECT FROM "shared log".epochs) RETURNING base)
	INSERT INTO "shared log".epoch SELECT first.base, c.system_identifier FROM first, pg_control_system() c;
CREATE OR REPLACE FUNCTION "shared log".epoch() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $setpoint0$
DECLARE
	v_system bigint;
	v_base bigint;
BEGIN
	SELECT c.system_identifier INTO STRICT v_system FROM pg_control_system() c;
	SELECT e.base INTO v_base FROM "shared log".epoch e WHERE e.system = v_system;
	IF v_base IS NOT NULL THEN
		RETURN v_base;
	END IF;
	PERFORM FROM "shared log".epochs FOR UPDATE; -- a session that has waited here finds the row of the other one
	SELECT e.base INTO v_base FROM "shared log".epoch e WHERE e.system = v_system;
	IF v_base IS NOT NULL THEN
		RETURN v_base;
	END IF;
	UPDATE "shared log".epochs s SET base = s.base + (1::bigint << 44) + 2 * (((floor(extract(epoch FROM clock_timestamp()) * 16)::bigint & 16777215) << 20) + floor(random() * 1048576)::bigint)
		RETURNING s.base INTO STRICT v_base;
	DELETE FROM "shared log".epoch;
	INSERT INTO "shared log".epoch VALUES (v_base, v_system);
	RETURN v_base;
END
$setpoint0$;

UPDATE "shared log".trimmed SET xid = pg_current_xact_id() WHERE source = '"public"."shared_one"' AND 4 > (
	SELECT count(*) FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
	WHERE t.tgrelid = '"public"."shared_one"'::regclass AND t.tgname IN ('setpoint_insert', 'setpoint_update', 'setpoint_delete', 'setpoint_truncate')
	AND t.tgenabled = 'A' AND p.pronamespace = '"shared log"'::regnamespace AND strpos(p.prosrc, 'pg_catalog.jsonb_build_object(''name'', r."name")') > 0);
UPDATE "shared log".trimmed SET xid = pg_current_xact_id() WHERE source = '"public"."shared_one"' AND xid >= pg_snapshot_xmax(pg_current_snapshot());
DELETE FROM "shared log".changes WHERE source = '"public"."shared_one"' AND xid >= pg_snapshot_xmax(pg_current_snapshot());
CREATE OR REPLACE FUNCTION "shared log"."record_c5b16c1e5561855e"() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $setpoint0$
BEGIN
	IF TG_OP OPERATOR(pg_catalog.=) 'UPDATE' THEN
		INSERT INTO "shared log".changes (source, op, key, before)
			SELECT '"public"."shared_one"', 'U', pg_catalog.jsonb_build_object('name', r."name"), pg_catalog.to_jsonb(o)
			FROM old_rows o, new_rows r WHERE o."name" OPERATOR(pg_catalog.=) r."name" AND NOT EXISTS (SELECT FROM old_rows OFFSET 1);
		IF NOT FOUND THEN
			INSERT INTO "shared log".changes (source, op, key, before)
				SELECT '"public"."shared_one"', CASE WHEN r."name" IS NULL THEN 'D' WHEN o."name" IS NULL THEN 'I' ELSE 'U' END, pg_catalog.jsonb_build_object('name', coalesce(r."name", o."name")),
					CASE WHEN o."name" IS NOT NULL THEN pg_catalog.to_jsonb(o) END
				FROM old_rows o FULL JOIN new_rows r ON o."name" OPERATOR(pg_catalog.=) r."name" ORDER BY r."name" IS NOT NULL; -- deletions first
		END IF;
	ELSIF TG_OP OPERATOR(pg_catalog.=) 'INSERT' THEN
		INSERT INTO "shared log".changes (source, op, key) SELECT '"public"."shared_one"', 'I', pg_catalog.jsonb_build_object('name', r."name") FROM new_rows r;
	ELSIF TG_OP OPERATOR(pg_catalog.=) 'DELETE' THEN
		INSERT INTO "shared log".changes (source, op, key, before) SELECT '"public"."shared_one"', 'D', pg_catalog.jsonb_build_object('name', r."name"), pg_catalog.to_jsonb(r) FROM old_rows r;
	ELSE
		INSERT INTO "shared log".changes (source, op) VALUES ('"public"."shared_one"', 'T');
	END IF;
	IF FOUND AND pg_catalog.pg_try_advisory_xact_lock(1557207655, 476688371) THEN
		PERFORM pg_catalog.pg_notify('setpoint_b9a234cf1c69aff3', '');
	END IF;
	RETURN NULL;
END
$setpoint0$;
CREATE OR REPLACE TRIGGER setpoint_insert AFTER INSERT ON "public"."shared_one" REFERENCING NEW TABLE AS new_rows
	FOR EACH STATEMENT EXECUTE FUNCTION "shared log"."record_c5b16c1e5561855e"();
CREATE OR REPLACE TRIGGER setpoint_update AFTER UPDATE ON "public"."shared_one" REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
	FOR EACH STATEMENT EXECUTE FUNCTION "shared log"."record_c5b16c1e5561855e"();
CREATE OR REPLACE TRIGGER setpoint_delete AFTER DELETE ON "public"."shared_one" REFERENCING OLD TABLE AS old_rows
	FOR EACH STATEMENT EXECUTE FUNCTION "shared log"."record_c5b16c1e5561855e"();
CREATE OR REPLACE TRIGGER setpoint_truncate AFTER TRUNCATE ON "public"."shared_one"
	FOR EACH STATEMENT EXECUTE FUNCTION "shared log"."record_c5b16c1e5561855e"();
ALTER TABLE "public"."shared_one" ENABLE ALWAYS TRIGGER setpoint_insert, ENABLE ALWAYS TRIGGER setpoint_update,
	ENABLE ALWAYS TRIGGER setpoint_delete, ENABLE ALWAYS TRIGGER setpoint_truncate;

LOCK TABLE ONLY "public"."shared_two" IN SHARE ROW EXCLUSIVE MODE;
CREATE SCHEMA IF NOT EXISTS "shared log";
CREATE TABLE IF NOT EXISTS "shared log".changes (
	id bigint GENERATED ALWAYS AS IDENTITY,
	xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
	source text COLLATE "C" NOT NULL,
	key jsonb,
	op "char" NOT NULL,
	before jsonb
);
DO $setpoint0$ BEGIN
	IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = '"shared log"."changes"'::regclass AND attname = 'oldest') THEN
		ALTER TABLE "shared log".changes ADD COLUMN oldest xid8;
		ALTER TABLE "shared log".changes ALTER COLUMN oldest SET DEFAULT pg_snapshot_xmin(pg_current_snapshot());
	END IF;
	IF (SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
			WHERE i.indrelid = '"shared log"."changes"'::regclass AND c.relname IN ('changes_by_transaction', 'changes_by_key')) < 2 THEN
		CREATE INDEX IF NOT EXISTS changes_by_transaction ON "shared log".changes (source, xid, id);
		CREATE INDEX IF NOT EXISTS changes_by_key ON "shared log".changes (source, key, id);
	END IF;
END $setpoint0$;
CREATE TABLE IF NOT EXISTS "shared log".trimmed (source text COLLATE "C" PRIMARY KEY, xid xid8 NOT NULL);
INSERT INTO "shared log".trimmed VALUES ('"public"."shared_two"', pg_current_xact_id()) ON CONFLICT DO NOTHING;
CREATE TABLE IF NOT EXISTS "shared log".epochs (base bigint NOT NULL);
CREATE UNLOGGED TABLE IF NOT EXISTS "shared log".epoch (base bigint NOT NULL, system bigint NOT NULL);
WITH first AS (INSERT INTO "shared log".epochs SELECT 0 WHERE NOT EXISTS (SELECT FROM "shared log".epochs) RETURNING base)
	INSERT INTO "shared log".epoch SELECT first.base, c.system_identifier FROM first, pg_control_system() c;
CREATE OR REPLACE FUNCTION "shared log".epoch() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $setpoint0$
DECLARE
	v_system bigint;
	v_base bigint;
BEGIN
	SELECT c.system_identifier INTO STRICT v_system FROM pg_control_system() c;
	SELECT e.base INTO v_base FROM "shared log".epoch e WHERE e.system = v_system;
	IF v_base IS NOT NULL THEN
		RETURN v_base;
	END IF;
	PERFORM FROM "shared log".epochs FOR UPDATE; -- a session that has waited here finds the row of the other one
	SELECT e.base INTO v_base FROM "shared log".epoch e WHERE e.system = v_system;
	IF v_base IS NOT NULL THEN
		RETURN v_base;
	END IF;
	UPDATE "shared log".epochs s SET base = s.base + (1::bigint << 44) + 2 * (((floor(extract(epoch FROM clock_timestamp()) * 16)::bigint & 16777215) << 20) + floor(random() * 1048576)::bigint)
		RETURNING s.base INTO STRICT v_base;
	DELETE FROM "shared log".epoch;
	INSERT INTO "shared log".epoch VALUES (v_base, v_system);
	RETURN v_base;
END
$setpoint0$;

UPDATE "shared log".trimmed SET xid = pg_current_xact_id() WHERE source = '"public"."shared_two"' AND 4 > (
	SELECT count(*) FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
	WHERE t.tgrelid = '"public"."shared_two"'::regclass AND t.tgname IN ('setpoint_insert', 'setpoint_update', 'setpoint_delete', 'setpoint_truncate')
	AND t.tgenabled = 'A' AND p.pronamespace = '"shared log"'::regnamespace AND strpos(p.prosrc, 'pg_catalog.jsonb_build_object(''name'', r."name")') > 0);
UPDATE "shared log".trimmed SET xid = pg_current_xact_id() WHERE source = '"public"."shared_two"' AND xid >= pg_snapshot_xmax(pg_current_snapshot());
DELETE FROM "shared log".changes WHERE source = '"public"."shared_two"' AND xid >= pg_snapshot_xmax(pg_current_snapshot());
CREATE OR REPLACE FUNCTION "shared log"."record_846923c2e89c2e4"() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $setpoint0$
BEGIN
	IF TG_OP OPERATOR(pg_catalog.=) 'UPDATE' THEN
		INSERT INTO "shared log".changes (source, op, key, before)
			SELECT '"public"."shared_two"', 'U', pg_catalog.jsonb_build_object('name', r."name"), pg_catalog.to_jsonb(o)
			FROM old_rows o, new_rows r WHERE o."name" OPERATOR(pg_catalog.=) r."name" AND NOT EXISTS (SELECT FROM old_rows OFFSET 1);
		IF NOT FOUND THEN
			INSERT INTO "shared log".changes (source, op, key, before)
				SELECT '"public"."shared_two"', CASE WHEN r."name" IS NULL THEN 'D' WHEN o."name" IS NULL THEN 'I' ELSE 'U' END, pg_catalog.jsonb_build_object('name', coalesce(r."name", o."name")),
					CASE WHEN o."name" IS NOT NULL THEN pg_catalog.to_jsonb(o) END
				FROM old_rows o FULL JOIN new_rows r ON o."name" OPERATOR(pg_catalog.=) r."name" ORDER BY r."name" IS NOT NULL; -- deletions first
		END IF;
	ELSIF TG_OP OPERATOR(pg_catalog.=) 'INSERT' THEN
		INSERT INTO "shared log".changes (source, op, key) SELECT '"public"."shared_two"', 'I', pg_catalog.jsonb_build_object('name', r."name") FROM new_rows r;
	ELSIF TG_OP OPERATOR(pg_catalog.=) 'DELETE' THEN
		INSERT INTO "shared log".changes (source, op, key, before) SELECT '"public"."shared_two"', 'D', pg_catalog.jsonb_build_object('name', r."name"), pg_catalog.to_jsonb(r) FROM old_rows r;
	ELSE
		INSERT INTO "shared log".changes (source, op) VALUES ('"public"."shared_two"', 'T');
	END IF;
	IF FOUND AND pg_catalog.pg_try_advisory_xact_lock(1946668870, 503024573) THEN
		PERFORM pg_catalog.pg_notify('setpoint_e80f9e8d9dfb8bbd', '');
	END IF;
	RETURN NULL;
END
$setpoint0$;
CREATE OR REPLACE TRIGGER setpoint_insert AFTER INSERT ON "public"."shared_two" REFERENCING NEW TABLE AS new_rows
	FOR EACH STATEMENT EXECUTE FUNCTION "shared log"."record_846923c2e89c2e4"();
CREATE OR REPLACE TRIGGER setpoint_update AFTER UPDATE ON "public"."shared_two" REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
	FOR EACH STATEMENT EXECUTE FUNCTION "shared log"."record_846923c2e89c2e4"();
CREATE OR REPLACE TRIGGER setpoint_delete AFTER DELETE ON "public"."shared_two" REFERENCING OLD TABLE AS old_rows
	FOR EACH STATEMENT EXECUTE FUNCTION "shared log"."record_846923c2e89c2e4"();
CREATE OR REPLACE TRIGGER setpoint_truncate AFTER TRUNCATE ON "public"."shared_two"
	FOR EACH STATEMENT EXECUTE FUNCTION "shared log"."record_846923c2e89c2e4"();
ALTER TABLE "public"."shared_two" ENABLE ALWAYS TRIGGER setpoint_insert, ENABLE ALWAYS TRIGGER setpoint_update,
	ENABLE ALWAYS TRIGGER setpoint_delete, ENABLE ALWAYS TRIGGER setpoint_truncate;
