-- The statements of SQL in layout 1, for the default schema.

CREATE SCHEMA IF NOT EXISTS "setpoint";

CREATE TABLE "setpoint".objects (
	version bigint PRIMARY KEY,
	kind text COLLATE "C" NOT NULL,
	key text COLLATE "C" NOT NULL,
	latest boolean NOT NULL,
	deleted boolean NOT NULL,
	record bytea NOT NULL,
	value bytea NOT NULL
);
CREATE UNIQUE INDEX objects_latest ON "setpoint".objects (kind, key) WHERE latest;
CREATE INDEX objects_past ON "setpoint".objects (version) WHERE NOT latest OR deleted;
CREATE INDEX objects_changes ON "setpoint".objects (kind, version);

CREATE TABLE "setpoint".state (
	layout integer NOT NULL,
	version bigint NOT NULL,
	horizon bigint NOT NULL
);
CREATE UNIQUE INDEX state_one_row ON "setpoint".state ((true));

CREATE TABLE "setpoint".fences (
	lease text COLLATE "C" PRIMARY KEY,
	term numeric(20) NOT NULL
);

CREATE UNLOGGED TABLE "setpoint".incarnation (system bigint NOT NULL);
CREATE TABLE "setpoint".gaps (after bigint NOT NULL, before bigint NOT NULL);

CREATE VIEW "setpoint".current AS
	SELECT kind, key, version, convert_from(value, 'UTF8')::jsonb AS value
	FROM "setpoint".objects WHERE latest AND NOT deleted;

CREATE FUNCTION "setpoint".write(
	p_kind text, p_key text, p_have bigint, p_next boolean, p_deleted boolean, p_record bytea, p_value bytea,
	p_leases text[], p_terms text[], p_history bigint,
	OUT outcome text, OUT new_version bigint
) LANGUAGE plpgsql SET search_path = "setpoint", pg_catalog AS $$
DECLARE
	v_version bigint;
	v_horizon bigint;
	v_system bigint;
	v_gap gaps%ROWTYPE;
	v_last_gap bigint;
	v_known boolean;
BEGIN
	outcome := 'written';
	SELECT s.version INTO STRICT v_version FROM state s FOR UPDATE;
	v_system := nullif(current_setting('setpoint.system', true), '')::bigint;
	IF v_system IS NULL THEN
		SELECT c.system_identifier INTO STRICT v_system FROM pg_control_system() c;
		PERFORM set_config('setpoint.system', v_system::text, false);
	END IF;
	IF cardinality(p_leases) > 0 AND EXISTS (
		SELECT FROM unnest(p_leases, p_terms) AS p (lease, term) JOIN fences f USING (lease) WHERE f.term > p.term::numeric
	) THEN
		outcome := 'fenced';
		RETURN;
	END IF;
	IF p_next AND p_have > 0 THEN
		UPDATE objects o SET latest = false WHERE o.version = p_have AND o.latest
			RETURNING (SELECT max(g.before) FROM gaps g), EXISTS (SELECT FROM incarnation i WHERE i.system = v_system) INTO v_last_gap, v_known;
	ELSE
		SELECT max(g.before), EXISTS (SELECT FROM incarnation i WHERE i.system = v_system) FROM gaps g INTO v_last_gap, v_known
			HAVING p_have = coalesce((SELECT o.version FROM objects o WHERE o.kind = p_kind AND o.key = p_key AND o.latest), 0);
	END IF;
	IF NOT FOUND THEN
		outcome := 'conflict';
		RETURN;
	END IF;
	IF cardinality(p_leases) > 0 THEN
		INSERT INTO fences AS f (lease, term) SELECT p.lease, p.term::numeric FROM unnest(p_leases, p_terms) AS p (lease, term)
			ON CONFLICT (lease) DO UPDATE SET term = excluded.term WHERE f.term < excluded.term;
	END IF;
	IF NOT p_next THEN
		RETURN;
	END IF;
	IF NOT v_known THEN
		v_gap.after := v_version;
		v_gap.before := v_version + (1::bigint << 40) + (((floor(extract(epoch FROM clock_timestamp()) * 16)::bigint & 16777215) << 20) + floor(random() * 1048576)::bigint);
		INSERT INTO gaps VALUES (v_gap.*);
		DELETE FROM incarnation;
		INSERT INTO incarnation VALUES (v_system);
		v_last_gap := v_gap.before;
		v_version := v_gap.before - 1;
	END IF;
	new_version := v_version + 1;
	v_horizon := new_version - p_history;
	IF v_horizon < v_last_gap - 1 THEN
		FOR v_gap IN SELECT g.* FROM gaps g ORDER BY g.after DESC LOOP
			EXIT WHEN v_horizon >= v_gap.before - 1;
			v_horizon := v_horizon - (v_gap.before - 1 - v_gap.after);
		END LOOP;
	END IF;
	INSERT INTO objects (version, kind, key, latest, deleted, record, value)
		VALUES (new_version, p_kind, p_key, true, p_deleted, p_record, p_value);
	UPDATE state s SET version = new_version, horizon = greatest(s.horizon, v_horizon) RETURNING s.horizon INTO v_horizon;
	IF v_horizon > 0 THEN
		DELETE FROM objects o WHERE o.version IN (
			SELECT p.version FROM objects p WHERE (NOT p.latest OR p.deleted) AND p.version <= v_horizon ORDER BY p.version LIMIT 8
		);
	END IF;
	PERFORM pg_notify('setpoint_bcf0ceaa5870362b', '');
END
$$;

INSERT INTO "setpoint".state VALUES (1, 0, 0);
INSERT INTO "setpoint".incarnation SELECT system_identifier FROM pg_control_system();
