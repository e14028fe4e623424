-- the tables of the service's database in its first version
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
CREATE TABLE category_model (
    id TEXT NOT NULL,
    category TEXT NOT NULL,
    folder TEXT NOT NULL,
    run_sha256 TEXT NOT NULL,
    features JSON NOT NULL,
    gallery_size INTEGER NOT NULL,
    registered_at DATETIME NOT NULL,
    active_from DATETIME,
    retired_at DATETIME,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX one_active_model ON category_model (category) WHERE active_from IS NOT NULL AND retired_at IS NULL;
CREATE TABLE product (
    category TEXT NOT NULL,
    id TEXT NOT NULL,
    title TEXT NOT NULL,
    price_minor BIGINT,
    currency TEXT,
    sizes JSON NOT NULL,
    in_stock BOOLEAN,
    url TEXT,
    group_id TEXT,
    updated_at DATETIME NOT NULL,
    revision BIGINT NOT NULL,
    deleted_at DATETIME,
    PRIMARY KEY (category, id)
);
CREATE INDEX ix_product_revision ON product (revision);
CREATE TABLE session (
    id TEXT NOT NULL,
    category TEXT NOT NULL,
    model TEXT NOT NULL,
    client TEXT,
    consent TEXT NOT NULL,
    consent_at DATETIME NOT NULL,
    policy_version TEXT,
    arm TEXT,
    experiment TEXT,
    origin TEXT NOT NULL,
    token_sha256 TEXT,
    idem_key TEXT,
    request_hmac TEXT,
    created_at DATETIME NOT NULL,
    last_at DATETIME NOT NULL,
    ended_at DATETIME,
    PRIMARY KEY (id),
    UNIQUE (idem_key)
);
CREATE INDEX ix_session_client ON session (client);
CREATE INDEX ix_session_experiment ON session (experiment);
CREATE INDEX session_by_consent ON session (consent, last_at);
CREATE TABLE turn (
    query_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    n INTEGER NOT NULL,
    kind TEXT NOT NULL,
    about TEXT,
    question TEXT,
    says TEXT,
    word_ids JSON NOT NULL,
    filters JSON NOT NULL,
    shown JSON NOT NULL,
    heard JSON NOT NULL,
    eligible INTEGER NOT NULL,
    took_ms INTEGER NOT NULL,
    idem_key TEXT,
    request_hmac TEXT,
    created_at DATETIME NOT NULL,
    undone_at DATETIME,
    PRIMARY KEY (query_id),
    UNIQUE (session_id, idem_key),
    FOREIGN KEY(session_id) REFERENCES session (id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX one_live_turn ON turn (session_id, n) WHERE undone_at IS NULL;
CREATE INDEX turn_with_text ON turn (created_at) WHERE says IS NOT NULL OR question IS NOT NULL;
CREATE INDEX turn_with_key ON turn (created_at) WHERE idem_key IS NOT NULL;
CREATE TABLE experiment (
    id TEXT NOT NULL,
    category TEXT NOT NULL,
    running TEXT NOT NULL,
    challenger TEXT NOT NULL,
    method TEXT NOT NULL,
    error FLOAT NOT NULL,
    most INTEGER NOT NULL,
    started_at DATETIME NOT NULL,
    ended_at DATETIME,
    verdict TEXT,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX one_running_experiment ON experiment (category) WHERE ended_at IS NULL;
CREATE TABLE event (
    event_id TEXT NOT NULL,
    query_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    action TEXT NOT NULL,
    product_id TEXT,
    position INTEGER,
    value_minor BIGINT,
    client_at DATETIME,
    server_at DATETIME NOT NULL,
    PRIMARY KEY (event_id),
    FOREIGN KEY(session_id) REFERENCES session (id) ON DELETE CASCADE
);
CREATE INDEX event_by_session ON event (session_id);
CREATE TABLE picture (
    id TEXT NOT NULL,
    feature BLOB NOT NULL,
    attrs JSON NOT NULL,
    expires_at DATETIME NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX ix_picture_expires_at ON picture (expires_at);
CREATE TABLE api_key (
    id TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    scopes JSON NOT NULL,
    limits JSON NOT NULL,
    revoked_at DATETIME,
    PRIMARY KEY (id)
);
CREATE TABLE secret (
    epoch INTEGER NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (epoch)
);
CREATE TABLE erasure (
    subject_hmac TEXT NOT NULL,
    at DATETIME NOT NULL,
    done_at DATETIME,
    PRIMARY KEY (subject_hmac)
);
CREATE TABLE export (
    id TEXT NOT NULL,
    folder TEXT NOT NULL,
    cut_at DATETIME NOT NULL,
    rule JSON NOT NULL,
    sessions INTEGER NOT NULL,
    deleted_at DATETIME,
    PRIMARY KEY (id)
);
CREATE TABLE export_session (
    export_id TEXT NOT NULL,
    subject_hmac TEXT NOT NULL,
    withdrawn_at DATETIME,
    removed_at DATETIME,
    PRIMARY KEY (export_id, subject_hmac),
    FOREIGN KEY(export_id) REFERENCES export (id) ON DELETE CASCADE
);
CREATE INDEX ix_export_session_subject_hmac ON export_session (subject_hmac);
INSERT INTO alembic_version VALUES ('0009');
