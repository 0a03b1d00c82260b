//! Files that hold a secret: others must not be able to read them.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use leakage::field_error::FieldError;

/// Errors when others can read the file, unless it is `shared`. A group may where root owns the file, as of secrets that
/// Kubernetes mounts.
pub fn check_private(field: &str, path: &Path, shared: bool) -> Result<(), FieldError> {
    let metadata = std::fs::metadata(path)
        .map_err(|error| FieldError::new(field, format!("{} cannot be read: {error}", path.display())))?;
    let refused = if metadata.uid() == 0 { 0o027 } else { 0o077 };
    if !shared && metadata.is_file() && metadata.mode() & refused != 0 {
        let mode = metadata.mode() & 0o777;
        let message = format!("others can read {} (mode {mode:04o}), expected 0600", path.display());
        return Err(FieldError::new(field, message));
    }
    Ok(())
}

/// The token that a file holds: one line of printable ASCII, at least 16 characters. Unless it is `shared`, others must not
/// be able to read it.
pub fn read_token(field: &str, path: &Path, shared: bool) -> Result<String, FieldError> {
    check_private(field, path, shared)?;
    let text = std::fs::read_to_string(path)
        .map_err(|error| FieldError::new(field, format!("{} cannot be read: {error}", path.display())))?;
    let token = text.trim_end();
    if token.len() < 16 || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(FieldError::new(field, format!("{} must hold 16 or more printable characters", path.display())));
    }
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_that_others_can_read_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        std::fs::write(&path, "x").unwrap();
        for (mode, good) in [(0o600, true), (0o400, true), (0o644, false), (0o604, false), (0o620, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(check_private("token_file", &path, false).is_ok(), good, "{mode:o}");
        }
        assert!(check_private("token_file", &path, true).is_ok());
        let message = check_private("token_file", &path, false).unwrap_err().to_string();
        assert!(message.starts_with("token_file: others can read") && message.contains("0620"), "{message}");
    }
}
