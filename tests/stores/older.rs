//! Databases as left by releases of older schemas. The benchmark of hubs includes this file, too.

/// Statements that take a schema of PostgreSQL back to the previous one, newest first.
const BEFORE: [(u32, &str); 5] = [
    (7, "ALTER TABLE point DROP COLUMN ordinal, DROP COLUMN repeated_rows; ALTER TABLE unscored DROP COLUMN ordinal"),
    (6, "DROP TABLE process"),
    (5, "ALTER TABLE job DROP COLUMN result"),
    (4, "ALTER TABLE point DROP COLUMN superseded; ALTER TABLE point ADD UNIQUE (run, split, step)"),
    (3, "DROP TABLE recent"),
];

/// The statements that take a database back to an older schema.
pub fn back_to(schema: u32) -> String {
    let later = BEFORE.iter().filter(|(version, _)| *version > schema).map(|(_, back)| *back);
    let version = format!("UPDATE conceptwatch_schema SET version = {schema}");
    later.chain([version.as_str()]).collect::<Vec<_>>().join(";")
}
