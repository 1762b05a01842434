-- Version 1. Released schemas are history: add a new file, never change this one.
CREATE TABLE study (
    id INTEGER PRIMARY KEY,
    model_hash TEXT NOT NULL,
    model_name TEXT NOT NULL,
    tiles INTEGER NOT NULL CHECK (tiles BETWEEN 1 AND 1472),
    space_hash TEXT NOT NULL,
    evaluator TEXT NOT NULL,
    seed INTEGER NOT NULL,
    device TEXT NOT NULL,
    created TEXT NOT NULL
) STRICT;

CREATE TABLE round (
    study INTEGER PRIMARY KEY REFERENCES study (id),
    number INTEGER NOT NULL CHECK (number >= 0),
    trials INTEGER NOT NULL CHECK (trials >= 0),
    state TEXT NOT NULL,
    -- How often it was committed: a process notices when another one went on with the study.
    commits INTEGER NOT NULL CHECK (commits >= 0)
) STRICT;

CREATE TABLE candidate (
    study INTEGER NOT NULL REFERENCES study (id),
    trial INTEGER NOT NULL CHECK (trial >= 1),
    hash BLOB NOT NULL CHECK (length(hash) = 32),
    recipe TEXT NOT NULL,
    predicted_cycles REAL CHECK (predicted_cycles > 0),
    failure_kind TEXT,
    failure TEXT,
    PRIMARY KEY (study, trial)
) STRICT;

CREATE TABLE incumbent (
    study INTEGER NOT NULL REFERENCES study (id),
    trial INTEGER NOT NULL,
    round INTEGER NOT NULL,
    hash BLOB NOT NULL,
    predicted_cycles REAL NOT NULL CHECK (predicted_cycles > 0),
    measured_cycles INTEGER NOT NULL CHECK (measured_cycles > 0),
    device TEXT NOT NULL,
    simulated INTEGER NOT NULL CHECK (simulated IN (0, 1)),
    minimum_cosine REAL NOT NULL,
    elapsed_ms INTEGER NOT NULL,
    found TEXT NOT NULL,
    -- Why it no longer validates; it stays in the history.
    demoted TEXT
) STRICT;

CREATE TABLE measurement (
    study INTEGER NOT NULL REFERENCES study (id),
    candidate TEXT NOT NULL,
    device TEXT NOT NULL,
    simulated INTEGER NOT NULL CHECK (simulated IN (0, 1)),
    cycles INTEGER NOT NULL CHECK (cycles > 0),
    predicted_cycles REAL NOT NULL,
    calibration INTEGER NOT NULL,
    taken TEXT NOT NULL
) STRICT;

CREATE TABLE calibration (
    study INTEGER NOT NULL REFERENCES study (id),
    version INTEGER NOT NULL,
    record TEXT NOT NULL,
    PRIMARY KEY (study, version)
) STRICT;

CREATE TABLE event (
    study INTEGER NOT NULL REFERENCES study (id),
    name TEXT NOT NULL,
    text TEXT NOT NULL,
    happened TEXT NOT NULL
) STRICT;
