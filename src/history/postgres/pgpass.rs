//! Passwords by the file that PostgreSQL's own programs read: lines of `host:port:database:user:password`.
//!
//! The first line that matches counts. `*` matches anything, and `\` stands before a `:` or `\` that is meant itself.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The file that `PGPASSFILE` names, or `~/.pgpass`.
pub(super) fn file() -> Option<PathBuf> {
    let named = std::env::var_os("PGPASSFILE").map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".pgpass")))
}

/// The password in a file for `[host, port, database, user]`. A file that others may read is not used.
pub(super) fn password(file: &Path, of: [&str; 4]) -> Option<String> {
    let mode = std::fs::metadata(file).ok()?.mode();
    if mode & 0o077 != 0 {
        let path = file.display();
        tracing::warn!(%path, "the password file is not used: others may read it, expected permissions 0600");
        return None;
    }
    std::fs::read_to_string(file).ok()?.lines().find_map(|line| in_line(line, of))
}

fn in_line(line: &str, of: [&str; 4]) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let mut rest = line;
    for expected in of {
        let (field, after) = field(rest);
        if field != expected && field != "*" {
            return None;
        }
        rest = after?;
    }
    Some(field(rest).0)
}

/// The first field, and what follows its colon.
fn field(text: &str) -> (String, Option<&str>) {
    let (mut found, mut escaped) = (String::new(), false);
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => {
                found.push(character);
                escaped = false;
            }
            '\\' => escaped = true,
            ':' => return (found, Some(&text[at + 1..])),
            _ => found.push(character),
        }
    }
    (found, None)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const OF: [&str; 4] = ["db.example", "5432", "curves", "hub"];

    #[test]
    fn the_first_line_that_matches_has_the_password() {
        assert_eq!(in_line("db.example:5432:curves:hub:secret", OF).as_deref(), Some("secret"));
        assert_eq!(in_line("*:*:*:hub:a\\:b\\\\c", OF).as_deref(), Some("a:b\\c"));
        for line in ["db.example:5433:*:*:x", "db.example:5432:curves:other:x", "# *:*:*:*:x", "db.example", ""] {
            assert_eq!(in_line(line, OF), None, "{line}");
        }
    }

    #[test]
    fn a_file_that_others_may_read_is_not_used() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "other:*:*:*:x\n*:*:*:*:first\n*:*:*:*:second\n").unwrap();
        assert_eq!(password(file.path(), OF).as_deref(), Some("first"));
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(password(file.path(), OF), None);
    }
}
