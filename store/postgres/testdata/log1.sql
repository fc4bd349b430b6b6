-- The statements of TableSQL before the log had the column oldest, for the table upgraded and the schema "old log".

CREATE SCHEMA IF NOT EXISTS "old log";
CREATE TABLE IF NOT EXISTS "old log".changes (
	id bigint GENERATED ALWAYS AS IDENTITY,
	xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
	source text COLLATE "C" NOT NULL,
	key jsonb,
	op "char" NOT NULL,
	before jsonb
);
CREATE INDEX IF NOT EXISTS changes_by_transaction ON "old log".changes (source, xid, id);
CREATE INDEX IF NOT EXISTS changes_by_key ON "old log".changes (source, key, id);
CREATE TABLE IF NOT EXISTS "old log".trimmed (source text COLLATE "C" PRIMARY KEY, xid xid8 NOT NULL);
INSERT INTO "old log".trimmed VALUES ('"public"."upgraded"', pg_current_xact_id()) ON CONFLICT DO NOTHING;
CREATE TABLE IF NOT EXISTS "old log".epochs (base bigint NOT NULL);
CREATE UNLOGGED TABLE IF NOT EXISTS "old log".epoch (base bigint NOT NULL, system bigint NOT NULL);
WITH first AS (INSERT INTO "old log".epochs SELECT 0 WHERE NOT EXISTS (SELECT FROM "old log".epochs) RETURNING base)
	INSERT INTO "old log".epoch SELECT first.base, c.system_identifier FROM first, pg_control_system() c;
CREATE OR REPLACE FUNCTION "old log".epoch() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $setpoint0$
DECLARE
	v_system bigint;
	v_base bigint;
BEGIN
	SELECT c.system_identifier INTO STRICT v_system FROM pg_control_system() c;
	SELECT e.base INTO v_base FROM "old log".epoch e WHERE e.system = v_system;
	IF v_base IS NOT NULL THEN
		RETURN v_base;
	END IF;
	PERFORM FROM "old log".epochs FOR UPDATE; -- whoever waits here finds the row of the other
	SELECT e.base INTO v_base FROM "old log".epoch e WHERE e.system = v_system;
	IF v_base IS NOT NULL THEN
		RETURN v_base;
	END IF;
	UPDATE "old log".epochs s SET base = s.base + (1::bigint << 44) + 2 * floor(random() * (1::bigint << 43))::bigint
		RETURNING s.base INTO STRICT v_base;
	DELETE FROM "old log".epoch;
	INSERT INTO "old log".epoch VALUES (v_base, v_system);
	RETURN v_base;
END
$setpoint0$;

CREATE OR REPLACE FUNCTION "old log"."record_8f2de9987344f054"() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $setpoint0$
BEGIN
	IF TG_OP = 'INSERT' THEN
		INSERT INTO "old log".changes (source, op, key) SELECT '"public"."upgraded"', 'I', jsonb_build_object('name', r."name") FROM new_rows r;
	ELSIF TG_OP = 'UPDATE' THEN
		INSERT INTO "old log".changes (source, op, key, before)
			SELECT '"public"."upgraded"', 'D', jsonb_build_object('name', r."name"), to_jsonb(r) FROM old_rows r WHERE NOT EXISTS (SELECT FROM new_rows n WHERE n."name" = r."name");
		INSERT INTO "old log".changes (source, op, key, before)
			SELECT '"public"."upgraded"', CASE WHEN n."name" IS NULL THEN 'I' ELSE 'U' END, jsonb_build_object('name', r."name"), CASE WHEN n."name" IS NOT NULL THEN to_jsonb(n) END
			FROM new_rows r LEFT JOIN old_rows n ON n."name" = r."name";
	ELSIF TG_OP = 'DELETE' THEN
		INSERT INTO "old log".changes (source, op, key, before) SELECT '"public"."upgraded"', 'D', jsonb_build_object('name', r."name"), to_jsonb(r) FROM old_rows r;
	ELSE
		INSERT INTO "old log".changes (source, op) VALUES ('"public"."upgraded"', 'T');
	END IF;
	PERFORM pg_notify('setpoint_118315d718a3bebf', '');
	RETURN NULL;
END
$setpoint0$;
CREATE OR REPLACE TRIGGER setpoint_insert AFTER INSERT ON "public"."upgraded" REFERENCING NEW TABLE AS new_rows
	FOR EACH STATEMENT EXECUTE FUNCTION "old log"."record_8f2de9987344f054"();
CREATE OR REPLACE TRIGGER setpoint_update AFTER UPDATE ON "public"."upgraded" REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
	FOR EACH STATEMENT EXECUTE FUNCTION "old log"."record_8f2de9987344f054"();
CREATE OR REPLACE TRIGGER setpoint_delete AFTER DELETE ON "public"."upgraded" REFERENCING OLD TABLE AS old_rows
	FOR EACH STATEMENT EXECUTE FUNCTION "old log"."record_8f2de9987344f054"();
CREATE OR REPLACE TRIGGER setpoint_truncate AFTER TRUNCATE ON "public"."upgraded"
	FOR EACH STATEMENT EXECUTE FUNCTION "old log"."record_8f2de9987344f054"();
ALTER TABLE "public"."upgraded" ENABLE ALWAYS TRIGGER setpoint_insert, ENABLE ALWAYS TRIGGER setpoint_update,
	ENABLE ALWAYS TRIGGER setpoint_delete, ENABLE ALWAYS TRIGGER setpoint_truncate;
