//! The file of principals, as a server uses it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::principal::Principal;
use crate::principal_table::{BadAccessFile, parse_tables};
use crate::secret::{Secret, SecretHash};

/// All principals of a file.
#[derive(Clone, Debug)]
pub struct AccessFile {
    principals: Vec<Arc<Principal>>,
    /// Index of the principal with each name.
    names: HashMap<String, usize>,
    /// Index of the principal that each token is for.
    holders: HashMap<SecretHash, usize>,
}

impl AccessFile {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// Anything in it is not in its form; two principals share a name or a token; or it has no
    /// principal, as a file that was truncated.
    pub fn parse(text: &str) -> Result<AccessFile, BadAccessFile> {
        let tables = parse_tables(text)?;
        if tables.is_empty() {
            return Err(BadAccessFile::without_principal());
        }
        let mut file = AccessFile {
            principals: Vec::with_capacity(tables.len()),
            names: HashMap::new(),
            holders: HashMap::new(),
        };
        for (index, table) in tables.into_iter().enumerate() {
            let hashes = table.principal.hashes.iter();
            file.holders.extend(hashes.map(|hash| (*hash, index)));
            file.names.insert(table.principal.name.clone(), index);
            file.principals.push(Arc::new(table.principal));
        }
        Ok(file)
    }

    /// Returns all principals in the order of the file.
    pub fn principals(&self) -> &[Arc<Principal>] {
        &self.principals
    }

    /// Returns the principal with this name.
    pub fn principal(&self, name: &str) -> Option<&Arc<Principal>> {
        self.principals.get(*self.names.get(name)?)
    }

    /// Returns the principal that a token is for.
    pub fn holder_of(&self, token: &Secret) -> Option<&Arc<Principal>> {
        let index = self.holders.get(&token.hash())?;
        self.principals.get(*index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grants::{ClusterRight, GrantTarget, NamespaceRight};

    const ONE: &str = "\
# those who take numbers
[[principal]]
name = 'billing' # of the shop
sha256 = [
    \"aa55fe88df63e5b5facd6ec16abca5f57a351f55412635dda3ed3223cbf251ac\",
]
next = ['orders', '@ids/*']
current = [\"inv-*\"]

[[principal]]
name = \"ops\"
cluster = [\"status\", \"admin\"]
";

    fn why_rejected(text: &str) -> String {
        AccessFile::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn file_has_principals_with_their_rights() {
        let token = Secret::generate().unwrap();
        let text = ONE.replacen("    \"aa", &format!("    '{}', \"aa", token.hash()), 1);
        let file = AccessFile::parse(&text).unwrap();
        let names: Vec<_> = file.principals().iter().map(|p| &*p.name).collect();
        assert_eq!(names, ["billing", "ops"]);
        let billing = file.holder_of(&token).unwrap();
        assert_eq!(file.principal("billing"), Some(billing));
        assert_eq!(billing.hashes.len(), 2);
        let (orders, eu) = (
            GrantTarget::Namespace("orders"),
            GrantTarget::Namespace("inv-eu"),
        );
        assert!(billing.grants.has_right_on(NamespaceRight::Next, orders));
        assert!(!billing.grants.has_right_on(NamespaceRight::Current, orders));
        assert!(billing.grants.has_right_on(NamespaceRight::Current, eu));
        let ops = &file.principal("ops").unwrap().grants;
        assert!(ops.has_right(ClusterRight::Admin) && !ops.has_right(ClusterRight::Metrics));
        assert!(file.principal("other").is_none());
        assert!(file.holder_of(&Secret::generate().unwrap()).is_none());
    }

    #[test]
    fn error_names_the_line_and_the_remedy() {
        for (from, to, expected) in [
            (
                "[[principal]]\nname = 'b",
                "version = 1\n[[principal]]\nname = 'b",
                "line 2: an unknown key; a file has",
            ),
            (
                "current =",
                "now =",
                "line 8: an unknown key; a principal has name",
            ),
            (
                "name = 'billing'",
                "name = 'billing'\nname = 'x'",
                "line 4: not TOML: duplicate key",
            ),
            (
                "name = 'billing'",
                "name = 'a b'",
                "line 3: name is no text",
            ),
            ("name = 'billing'", "name = 7", "line 3: name is no text"),
            ("name = 'billing'", "", "line 2: a principal without name"),
            (
                "name = \"ops\"",
                "name = \"billing\"",
                "line 10: the principal of line 2 has this name",
            ),
            (
                "[\"inv-*\"]",
                "[\"*-inv\"]",
                "line 8: no name fits this pattern",
            ),
            ("[\"inv-*\"]", "\"inv-*\"", "line 8: no list of texts"),
            ("[\"inv-*\"]", "[7]", "line 8: no list of texts"),
            (
                "[\"inv-*\"]",
                "[\"@ids/x\"]",
                "line 8: current is not for families",
            ),
            (
                "\"status\"",
                "\"root\"",
                "line 12: a right on the cluster is status, metrics or admin",
            ),
            ("\"aa55", "\"AA55", "line 5: no SHA-256"),
            ("\"aa55", "\"sq_aa55", "line 5: a token itself"),
            (
                "sha256 = [\n",
                "sha256 = [\n\"aa55fe88df63e5b5facd6ec16abca5f57a351f55412635dda3ed3223cbf251ac\",",
                "line 5: line 5 has this sha256",
            ),
            (
                "[[principal]]\nname = \"ops\"",
                "[principal]\nname = \"ops\"",
                "line 10: not TOML",
            ),
            ("]\n\n[[", "]\n\n[", "not TOML"),
        ] {
            let text = ONE.replacen(from, to, 1);
            assert_ne!(text, ONE);
            let error = why_rejected(&text);
            assert!(
                error.starts_with(expected) || error.contains(expected) && expected == "not TOML",
                "{error}"
            );
        }
        assert!(why_rejected("principal = 7").contains("line 1: a principal is a table"));
        assert!(why_rejected("[principal]\nname = 'a'").contains("a principal is a table"));
    }

    /// Schedule: an editor truncates the file before it writes it. A server that used it would deny
    /// every caller.
    #[test]
    fn file_without_principals_is_rejected() {
        for text in ["", "\n", "# principals\n"] {
            let error = why_rejected(text);
            assert!(error.contains("no principal"), "{error}");
        }
    }

    #[test]
    fn file_above_a_limit_is_rejected() {
        let hash = |n: usize| format!("'{n:064x}'");
        let hashes = |count: usize| (0..count).map(hash).collect::<Vec<_>>().join(",");
        let of_hashes = |n| format!("[[principal]]\nname='a'\nsha256=[{}]", hashes(n));
        assert!(AccessFile::parse(&of_hashes(8)).is_ok());
        assert!(why_rejected(&of_hashes(9)).starts_with("line 3: 9 items, at most 8"));
        let of_patterns = |n| format!("[[principal]]\nname='a'\nnext=[{}]", "'a',".repeat(n));
        assert!(AccessFile::parse(&of_patterns(64)).is_ok());
        assert!(why_rejected(&of_patterns(65)).contains("at most 64"));
        let of_principals = |count: usize| {
            let table = |n| format!("[[principal]]\nname='p{n}'\n");
            (0..count).map(table).collect::<String>()
        };
        assert!(AccessFile::parse(&of_principals(1_024)).is_ok());
        let error = why_rejected(&of_principals(1_025));
        assert!(
            error.starts_with("line 2049: more than 1024 principals"),
            "{error}"
        );
        let long = format!("{ONE}#{}", "x".repeat(1 << 20));
        assert!(why_rejected(&long).contains("more than 1048576 bytes"));
    }

    /// Schedule: an operator writes the token instead of its hash, in any place, and the error is
    /// logged.
    #[test]
    fn error_has_no_token_of_the_file() {
        let token = Secret::generate().unwrap();
        let token = token.expose();
        for text in [
            token.to_owned(),
            format!("{token} = 1"),
            format!("token = {token}"),
            format!("[[{token}]]"),
            format!("[[principal]]\n{token} = 1"),
            format!("[[principal]]\n{token} = 1\n{token} = 1"),
            format!("[[principal]]\nname = \"{token}\""),
            format!("[[principal]]\nname = {token}"),
            format!("[[principal]]\nname = 'a'\nsha256 = \"{token}\""),
            format!("[[principal]]\nname = 'a'\nsha256 = [\"{token}\"]"),
            format!("[[principal]]\nname = 'a'\nnext = [\"{token}\"]"),
            format!("[[principal]]\nname = 'a'\nnext = [\"@ids/{token}*\"]"),
            format!("[[principal]]\nname = 'a'\ncluster = [\"{token}\"]"),
            format!("[[principal]]\nname = \"\\{token}\""),
            format!("[[principal]]\nname = \"{token}"),
        ] {
            let error = AccessFile::parse(&text).unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains(&token[..12]), "{shown}");
        }
    }
}
