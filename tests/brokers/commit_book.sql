-- See commit_book.py. Tables of the stores are found as they are made.
CREATE SCHEMA book;

CREATE TABLE book.note (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL,
    schema text NOT NULL,
    at double precision NOT NULL,
    machine text NOT NULL,
    application text NOT NULL,
    epoch bigint NOT NULL,
    holder text,
    raw bytea
);

CREATE FUNCTION book.take_note() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    lease record;
BEGIN
    EXECUTE format('SELECT epoch, application FROM %I.lease', TG_TABLE_SCHEMA)
        INTO lease;
    INSERT INTO book.note
        (kind, schema, at, machine, application, epoch, holder, raw)
    VALUES (
        TG_ARGV[0], TG_TABLE_SCHEMA, extract(epoch FROM clock_timestamp()),
        coalesce(host(inet_client_addr()), ''), current_setting('application_name'),
        lease.epoch, lease.application,
        -- NULL where there is no such column.
        (to_jsonb(NEW) ->> 'raw')::bytea);
    RETURN NULL;
END $$;

CREATE FUNCTION book.watch_table() RETURNS event_trigger LANGUAGE plpgsql AS $$
DECLARE
    made record;
    kind text;
BEGIN
    FOR made IN SELECT * FROM pg_event_trigger_ddl_commands() LOOP
        kind := CASE
            WHEN made.object_identity ~ '\.journal_\d+_\d+$' THEN 'commit'
            WHEN made.object_identity ~ '\.message_\d+_\d+$' THEN 'message'
            WHEN made.object_identity ~ '\.outbox$' THEN 'outbox'
            WHEN made.object_identity ~ '\.lease$' THEN 'lease'
        END;
        CONTINUE WHEN kind IS NULL;
        -- A table is named more than once if it inherits.
        EXECUTE format(
            'CREATE OR REPLACE TRIGGER book AFTER %s ON %s FOR EACH ROW '
            'EXECUTE FUNCTION book.take_note(%L)',
            CASE kind WHEN 'lease' THEN 'UPDATE' ELSE 'INSERT' END,
            made.object_identity, kind);
    END LOOP;
END $$;

CREATE EVENT TRIGGER book ON ddl_command_end WHEN TAG IN ('CREATE TABLE')
    EXECUTE FUNCTION book.watch_table();
