//! The tables of the file of principals, with their places in the text.
//!
//! Invariant: a file is used as a whole or not at all, and no error repeats a value of it.
//!
//! Schedules that break it: a key is misspelled, and the right that it should take away stays.
//! Or a token itself is written into the file by mistake, and the log of the server shows it.

use std::collections::HashMap;
use std::ops::Range;

use seqsvr_core::namespace::{NAME_MAX, validate_name};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::grants::{ClusterRight, GrantPattern, Grants, NamespaceRight};
use crate::principal::Principal;
use crate::secret::{Secret, SecretHash};

/// Maximum bytes of the file; a longer one is rejected.
pub const FILE_BYTES_MAX: usize = 1 << 20;
/// Maximum principals of a file; more are rejected.
const PRINCIPALS_MAX: usize = 1_024;
/// Maximum tokens of a principal; more are rejected. Two are enough to replace one.
pub const TOKENS_MAX: usize = 8;
/// Maximum patterns of one right of a principal, all of which each call may be compared with; more
/// are rejected.
const PATTERNS_MAX: usize = 64;
/// Words for rights on the cluster, for errors.
const CLUSTER_RIGHTS: &str = "status, metrics or admin";

/// A file of principals that cannot be used: where, why, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct BadAccessFile {
    line: usize,
    why: String,
}

impl BadAccessFile {
    /// Returns the error of a file without principals.
    pub(crate) fn without_principal() -> BadAccessFile {
        BadAccessFile {
            line: 1,
            why: "the file has no principal, as one that was truncated; restore it, or add one with `seqsvr auth add`".to_owned(),
        }
    }
}

/// One table and its place in the text.
#[derive(Debug)]
pub(crate) struct PrincipalTable {
    pub(crate) principal: Principal,
    /// `[[principal]]`.
    pub(crate) header: Range<usize>,
    /// The end of its last value.
    pub(crate) end: usize,
    /// The list of its tokens.
    pub(crate) hashes: Option<HashList>,
}

/// Places of the list of hashes, and of the hashes in it.
#[derive(Debug)]
pub(crate) struct HashList {
    pub(crate) list: Range<usize>,
    pub(crate) items: Vec<Range<usize>>,
}

/// Parses all tables of a text, in their order.
///
/// # Errors
/// Anything in it is not in its form, or two principals share a name or a token.
pub(crate) fn parse_tables(text: &str) -> Result<Vec<PrincipalTable>, BadAccessFile> {
    let reader = TableReader { text };
    if text.len() > FILE_BYTES_MAX {
        return Err(reader.bad(
            &(text.len()..text.len()),
            format!("the file has more than {FILE_BYTES_MAX} bytes; remove principals"),
        ));
    }
    let root = DeTable::parse(text).map_err(|error| {
        let place = error.span().unwrap_or_default();
        reader.bad(&place, format!("not TOML: {}; correct it", error.message()))
    })?;
    let mut tables = Vec::new();
    for (key, value) in root.get_ref() {
        if key.get_ref() != "principal" {
            let why = "an unknown key; a file has tables [[principal]] only: delete it, or write it below one";
            return Err(reader.bad(&key.span(), why));
        }
        let items = value.get_ref().as_array();
        let items = items.filter(|items| items.iter().all(|item| item.get_ref().is_table()));
        let Some(items) = items else {
            let why = "a principal is a table: write [[principal]], and its keys below";
            return Err(reader.bad(&value.span(), why));
        };
        if let Some(first) = items.get(PRINCIPALS_MAX) {
            let why = format!("more than {PRINCIPALS_MAX} principals; remove some");
            return Err(reader.bad(&first.span(), why));
        }
        for item in items {
            if let Some(table) = item.get_ref().as_table() {
                tables.push(reader.read_table(&item.span(), table)?);
            }
        }
    }
    reader.reject_repeats(&tables)?;
    Ok(tables)
}

/// Reads the parts of a text.
struct TableReader<'a> {
    text: &'a str,
}

impl TableReader<'_> {
    fn line_of(&self, place: &Range<usize>) -> usize {
        let before = self.text.get(..place.start).unwrap_or_default();
        before.matches('\n').count() + 1
    }

    fn bad(&self, place: &Range<usize>, why: impl Into<String>) -> BadAccessFile {
        BadAccessFile {
            line: self.line_of(place),
            why: why.into(),
        }
    }

    fn read_table(
        &self,
        header: &Range<usize>,
        table: &DeTable<'_>,
    ) -> Result<PrincipalTable, BadAccessFile> {
        let (mut name, mut hashes, mut list) = (None, Vec::new(), None);
        let mut grants = Grants::default();
        let mut end = header.end;
        for (key, value) in table {
            end = end.max(value.span().end);
            match key.get_ref().as_ref() {
                "name" => name = Some(self.read_name(value)?),
                "sha256" => {
                    let items = self.read_list(value, TOKENS_MAX, read_hash)?;
                    let places = items.iter().map(|(_, place)| place.clone()).collect();
                    hashes = items.into_iter().map(|(hash, _)| hash).collect();
                    list = Some(HashList {
                        list: value.span(),
                        items: places,
                    });
                }
                "next" => grants.next = self.read_patterns(NamespaceRight::Next, value)?,
                "current" => grants.current = self.read_patterns(NamespaceRight::Current, value)?,
                "raise" => grants.raise = self.read_patterns(NamespaceRight::Raise, value)?,
                "cluster" => {
                    let words = self.read_list(value, ClusterRight::ALL.len(), |word| {
                        let right = ClusterRight::parse(word);
                        right.ok_or_else(|| {
                            format!(
                                "a right on the cluster is {CLUSTER_RIGHTS}; correct or delete it"
                            )
                        })
                    })?;
                    grants.cluster = words.into_iter().map(|(right, _)| right).collect();
                }
                _ => {
                    let why = "an unknown key; a principal has name, sha256, next, current, raise and cluster: correct or delete it";
                    return Err(self.bad(&key.span(), why));
                }
            }
        }
        let Some(name) = name else {
            let why = "a principal without name; give it one";
            return Err(self.bad(header, why));
        };
        Ok(PrincipalTable {
            principal: Principal {
                name,
                hashes,
                grants,
            },
            header: header.clone(),
            end,
            hashes: list,
        })
    }

    fn read_name(&self, value: &Spanned<DeValue<'_>>) -> Result<String, BadAccessFile> {
        let name = value.get_ref().as_str();
        let name = name.filter(|name| validate_name("principal", name).is_ok());
        name.map(str::to_owned).ok_or_else(|| {
            let why = format!(
                "name is no text of 1 to {NAME_MAX} of a-z A-Z 0-9 _ . - beginning with a letter or digit; choose such a name"
            );
            self.bad(&value.span(), why)
        })
    }

    fn read_patterns(
        &self,
        right: NamespaceRight,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Vec<GrantPattern>, BadAccessFile> {
        let patterns = self.read_list(value, PATTERNS_MAX, |text| {
            GrantPattern::parse(right, text).map_err(|error| error.to_string())
        })?;
        Ok(patterns.into_iter().map(|(pattern, _)| pattern).collect())
    }

    /// Reads a list of texts, each with its place.
    fn read_list<T>(
        &self,
        value: &Spanned<DeValue<'_>>,
        max: usize,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Vec<(T, Range<usize>)>, BadAccessFile> {
        let form = "no list of texts; write [\"...\", \"...\"]";
        let list = value.get_ref().as_array();
        let list = list.ok_or_else(|| self.bad(&value.span(), form))?;
        if list.len() > max {
            let why = format!(
                "{} items, at most {max} are accepted; remove some",
                list.len()
            );
            return Err(self.bad(&value.span(), why));
        }
        let read_item = |item: &Spanned<DeValue<'_>>| {
            let text = item.get_ref().as_str();
            let parsed = text.map_or_else(|| Err(form.to_owned()), &parse);
            let parsed = parsed.map_err(|why| self.bad(&item.span(), why))?;
            Ok((parsed, item.span()))
        };
        list.iter().map(read_item).collect()
    }

    /// Rejects a name or a token of two principals, and one that a principal has twice.
    fn reject_repeats(&self, tables: &[PrincipalTable]) -> Result<(), BadAccessFile> {
        let (mut names, mut hashes) = (HashMap::new(), HashMap::new());
        for table in tables {
            let place = &table.header;
            if let Some(first) = names.insert(&table.principal.name, place) {
                let line = self.line_of(first);
                let why = format!("the principal of line {line} has this name; keep one of them");
                return Err(self.bad(place, why));
            }
            let places = table.hashes.iter().flat_map(|hashes| &hashes.items);
            for (hash, place) in table.principal.hashes.iter().zip(places) {
                if let Some(first) = hashes.insert(hash, place) {
                    let line = self.line_of(first);
                    let why = format!(
                        "line {line} has this sha256; a token is for one principal: keep one of them"
                    );
                    return Err(self.bad(place, why));
                }
            }
        }
        Ok(())
    }
}

fn read_hash(text: &str) -> Result<SecretHash, String> {
    let hash = SecretHash::parse(text);
    hash.ok_or_else(|| match Secret::is_prefix_of(text) {
        true => "a token itself, which every reader of the file has now; delete it, and make another one with `seqsvr auth add`".to_owned(),
        false => "no SHA-256, which is 64 of 0-9 a-f; copy it again, or make a token with `seqsvr auth add`".to_owned(),
    })
}
