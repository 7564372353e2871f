//! Changes of the text of a file, which keep its comments and its form.
//!
//! Invariant: a changed text is what was requested, or there is none: it is parsed again, and
//! compared with what it should say.
//!
//! Schedule that breaks it: a file has its principals in a form that an edit of lines does not
//! understand. The edit removes a line of the principal after it, whose rights become those of
//! another one.

use std::ops::Range;

use crate::grants::ClusterRight;
use crate::principal::Principal;
use crate::principal_table::{BadAccessFile, PrincipalTable, parse_tables};
use crate::secret::SecretHash;

/// A change that is not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The text is no file of principals.
    #[error(transparent)]
    File(#[from] BadAccessFile),
    /// No principal has this name.
    #[error("no principal {0:?}; `seqsvr auth list` shows their names")]
    NoPrincipal(String),
    /// The change itself is rejected; the text says why, and what to do.
    #[error("{0}")]
    Rejected(String),
}

/// Returns the text with one more principal at its end. The text may be empty.
///
/// # Errors
/// It has a principal of this name or with one of these tokens, or is full.
pub fn add_principal(text: &str, new: &Principal) -> Result<String, EditError> {
    let mut wanted = principals_of(parse_tables(text)?);
    if wanted.iter().any(|principal| principal.name == new.name) {
        return Err(EditError::Rejected(format!(
            "principal {} exists; edit its rights in the file, or add a token to it by a command without rights",
            new.name
        )));
    }
    let mut edited = text.to_owned();
    if !edited.is_empty() {
        // A line of its own, after a blank one.
        edited.push_str(if edited.ends_with('\n') { "\n" } else { "\n\n" });
    }
    edited.push_str(&new.to_string());
    wanted.push(new.clone());
    verify(edited, &wanted)
}

/// Returns the text with one more token of a principal.
///
/// # Errors
/// There is no such principal, or it has as many tokens as it may have.
pub fn add_token(text: &str, name: &str, hash: SecretHash) -> Result<String, EditError> {
    let tables = parse_tables(text)?;
    let index = find(&tables, name)?;
    let table = &tables[index];
    let mut edited = text.to_owned();
    match &table.hashes {
        Some(hashes) => {
            let separator = if hashes.items.is_empty() { "" } else { ", " };
            // After the bracket.
            edited.insert_str(hashes.list.start + 1, &format!("\"{hash}\"{separator}"));
        }
        None => {
            let line_end = line_end(text, table.header.end);
            edited.insert_str(line_end, &format!("sha256 = [\"{hash}\"]\n"));
        }
    }
    let mut wanted = principals_of(tables);
    wanted[index].hashes.insert(0, hash);
    verify(edited, &wanted)
}

/// Returns the text without a principal, and the comment directly above it.
///
/// # Errors
/// There is no such principal, or it is the last one or the last one with [`ClusterRight::Admin`].
pub fn remove_principal(text: &str, name: &str) -> Result<String, EditError> {
    let tables = parse_tables(text)?;
    let index = find(&tables, name)?;
    reject_last(&tables, index)?;
    let mut begin = line_begin(text, tables[index].header.start);
    while let Some(above) = line_above(text, begin) {
        if !text[above.clone()].trim_start().starts_with('#') {
            break;
        }
        begin = above.start;
    }
    let mut end = line_end(text, tables[index].end);
    // The blank line after it.
    let next = line_end(text, end);
    if text[end..next].trim().is_empty() {
        end = next;
    }
    let mut edited = text.to_owned();
    edited.replace_range(begin..end, "");
    let mut wanted = principals_of(tables);
    wanted.remove(index);
    verify(edited, &wanted)
}

/// Returns the text without one token of a principal, whose hash begins with these digits.
///
/// # Errors
/// There is no such principal or no such token, or it is the last one of the last principal with
/// [`ClusterRight::Admin`].
pub fn remove_token(text: &str, name: &str, digits: &str) -> Result<String, EditError> {
    let tables = parse_tables(text)?;
    let index = find(&tables, name)?;
    let table = &tables[index];
    let hashes = &table.principal.hashes;
    let begins = |hash: &SecretHash| hash.to_string().starts_with(digits);
    let (Some(at), 1) = (
        hashes.iter().position(begins),
        hashes.iter().filter(|hash| begins(hash)).count(),
    ) else {
        let known: Vec<String> = hashes.iter().map(SecretHash::short).collect();
        return Err(EditError::Rejected(format!(
            "principal {name} has not exactly one token {digits}, but {}; name one of them, with more digits if necessary",
            if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            }
        )));
    };
    if hashes.len() == 1 {
        reject_last_admin(&tables, index)?;
    }
    let mut edited = text.to_owned();
    if let Some(places) = &table.hashes {
        match (&places.items[..], at) {
            ([_], _) => edited.replace_range(places.list.clone(), "[]"),
            (items, at) if at + 1 < items.len() => {
                edited.replace_range(items[at].start..items[at + 1].start, "");
            }
            (items, at) => edited.replace_range(items[at - 1].end..items[at].end, ""),
        }
    }
    let mut wanted = principals_of(tables);
    wanted[index].hashes.remove(at);
    verify(edited, &wanted)
}

fn principals_of(tables: Vec<PrincipalTable>) -> Vec<Principal> {
    tables.into_iter().map(|table| table.principal).collect()
}

fn find(tables: &[PrincipalTable], name: &str) -> Result<usize, EditError> {
    let index = tables.iter().position(|table| table.principal.name == name);
    index.ok_or_else(|| EditError::NoPrincipal(name.to_owned()))
}

fn reject_last(tables: &[PrincipalTable], index: usize) -> Result<(), EditError> {
    if tables.len() == 1 {
        let name = &tables[index].principal.name;
        return Err(EditError::Rejected(format!(
            "{name} is the only principal, and no server accepts a file without one; add another one first"
        )));
    }
    reject_last_admin(tables, index)
}

fn reject_last_admin(tables: &[PrincipalTable], index: usize) -> Result<(), EditError> {
    let is_admin = |table: &PrincipalTable| table.principal.grants.has_right(ClusterRight::Admin);
    let admins = tables.iter().filter(|table| is_admin(table)).count();
    if !is_admin(&tables[index]) || admins > 1 {
        return Ok(());
    }
    let name = &tables[index].principal.name;
    Err(EditError::Rejected(format!(
        "{name} is the last principal with the right admin; add another one first (`seqsvr auth add FILE --principal NAME --cluster admin`)"
    )))
}

/// Returns the edited text, if it says what it should.
fn verify(edited: String, wanted: &[Principal]) -> Result<String, EditError> {
    let parsed = parse_tables(&edited).map(principals_of);
    let why = match parsed {
        Ok(principals) if principals == wanted => return Ok(edited),
        Ok(_) => "this command does not understand the form of the file".to_owned(),
        Err(error) => format!("the file would be wrong at {error}"),
    };
    Err(EditError::Rejected(format!("{why}; edit the file by hand")))
}

fn line_begin(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |end| end + 1)
}

/// Returns where the line after this place begins.
fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |end| at + end + 1)
}

/// Returns the line that ends where another one begins.
fn line_above(text: &str, begin: usize) -> Option<Range<usize>> {
    let end = begin.checked_sub(1)?;
    Some(line_begin(text, end)..begin)
}

#[cfg(test)]
mod tests;
