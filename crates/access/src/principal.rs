//! Principals: named holders of rights.

use std::fmt::{self, Display, Formatter};

use crate::grants::{ClusterRight, Grants, NamespaceRight};
use crate::secret::SecretHash;

/// A named holder of rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Its name, also that of its certificates.
    pub name: String,
    /// Hashes of its tokens. None: only certificates speak for it.
    pub hashes: Vec<SecretHash>,
    /// What it may do.
    pub grants: Grants,
}

/// As the table of the file.
impl Display for Principal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "[[principal]]\nname = \"{}\"", self.name)?;
        write_list(f, "sha256", &self.hashes)?;
        for right in NamespaceRight::ALL {
            write_list(f, right.name(), self.grants.patterns(right))?;
        }
        let cluster = self.grants.cluster.iter().copied();
        let words: Vec<&str> = cluster.map(ClusterRight::name).collect();
        write_list(f, "cluster", &words)
    }
}

/// Writes a key, unless its list is empty. No item has a character that TOML escapes.
fn write_list(f: &mut Formatter<'_>, key: &str, items: &[impl Display]) -> fmt::Result {
    let [first, rest @ ..] = items else {
        return Ok(());
    };
    write!(f, "{key} = [\"{first}\"")?;
    for item in rest {
        write!(f, ", \"{item}\"")?;
    }
    writeln!(f, "]")
}
