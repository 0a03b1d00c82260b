//! The tokens of projects: `--projects FILE`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use leakage::field_error::{FieldError, in_short};
use leakage::name::check_name;

/// The file: a table `[projects]` of names and paths of token files, which are relative to the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    projects: BTreeMap<String, PathBuf>,
}

/// Names of projects and the paths of their token files, by name. Faults name the option `projects`.
pub fn projects(path: &Path) -> Result<Vec<(String, PathBuf)>, FieldError> {
    let fault = |message: String| FieldError::new("projects", format!("{}: {message}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| fault(format!("cannot be read: {error}")))?;
    let File { projects } = toml::from_str(&text).map_err(|error| fault(in_short(error.to_string().trim())))?;
    if projects.is_empty() {
        return Err(fault("got no project, expected a table [projects] of names and token files".into()));
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut found = Vec::new();
    for (name, token) in projects {
        check_name("projects", &name).map_err(|wrong| fault(wrong.message))?;
        found.push((name, folder.join(token)));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_projects_and_their_tokens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("projects.toml");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            projects(&path).map_err(|fault| fault.to_string())
        };
        let found = read("[projects]\nvision = \"vision.token\"\naudio = \"/run/audio\"\n").unwrap();
        let expected = [("audio", PathBuf::from("/run/audio")), ("vision", folder.path().join("vision.token"))];
        assert_eq!(found, expected.map(|(name, path)| (name.to_owned(), path)));
        assert!(read("[projects]\n").unwrap_err().contains("got no project, expected a table [projects]"));
        assert!(read("[projects]\n\" \" = \"x\"\n").unwrap_err().contains("is blank, expected text"));
        assert!(read("[project]\n").unwrap_err().starts_with("projects: "));
    }
}
