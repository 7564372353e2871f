//! Edits of texts that commands and people wrote.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::access_file::AccessFile;
use crate::grants::{GrantPattern, Grants, NamespaceRight};

fn hash(n: usize) -> SecretHash {
    SecretHash::parse(&format!("{n:08x}{}", "5".repeat(56))).unwrap()
}

fn principal(name: &str, hashes: &[usize], cluster: &[ClusterRight]) -> Principal {
    let pattern = |text| GrantPattern::parse(NamespaceRight::Next, text).unwrap();
    Principal {
        name: name.to_owned(),
        hashes: hashes.iter().copied().map(hash).collect(),
        grants: Grants {
            next: vec![pattern("orders"), pattern("@ids/*")],
            cluster: cluster.to_vec(),
            ..Grants::default()
        },
    }
}

fn rejection(result: Result<String, EditError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn new_principal_is_a_table_at_the_end() {
    let billing = principal("billing", &[1], &[]);
    let ops = principal("ops", &[2], &[ClusterRight::Status, ClusterRight::Admin]);
    let one = add_principal("", &billing).unwrap();
    let two = add_principal(one.trim_end(), &ops).unwrap();
    let expected = format!(
        "[[principal]]\nname = \"billing\"\nsha256 = [\"{}\"]\nnext = [\"orders\", \"@ids/*\"]\n\n[[principal]]\nname = \"ops\"\nsha256 = [\"{}\"]\nnext = [\"orders\", \"@ids/*\"]\ncluster = [\"status\", \"admin\"]\n",
        hash(1),
        hash(2)
    );
    assert_eq!(two, expected);
    let file = AccessFile::parse(&two).unwrap();
    assert_eq!(file.principals(), [billing.clone(), ops].map(Arc::new));
    assert!(rejection(add_principal(&two, &billing)).contains("billing exists; edit"));
    let with_its_token = principal("x", &[1], &[]);
    assert!(rejection(add_principal(&two, &with_its_token)).contains("has this sha256"));
    // An empty file, such as one that `touch` made.
    let commented = add_principal("# callers", &billing).unwrap();
    assert_eq!(commented, format!("# callers\n\n{one}"));
}

#[test]
fn removal_keeps_a_principal_and_an_admin() {
    let admin = [ClusterRight::Admin];
    let mut text = add_principal("", &principal("a", &[1, 2], &admin)).unwrap();
    assert!(rejection(remove_principal(&text, "a")).contains("only principal"));
    text = add_principal(&text, &principal("b", &[3], &[])).unwrap();
    assert!(
        rejection(remove_principal(&text, "a")).contains("last principal with the right admin")
    );
    text = remove_token(&text, "a", "00000001").unwrap();
    assert!(rejection(remove_token(&text, "a", "00000002")).contains("right admin"));
    assert!(remove_token(&text, "b", "00000003").is_ok());
    text = add_principal(&text, &principal("c", &[4], &admin)).unwrap();
    assert!(remove_token(&text, "a", "00000002").is_ok());
    text = remove_principal(&text, "a").unwrap();
    assert!(rejection(remove_principal(&text, "c")).contains("right admin"));
    assert!(remove_principal(&text, "b").is_ok());
    assert!(rejection(remove_principal(&text, "a")).contains("no principal \"a\""));
}

#[test]
fn token_is_named_by_digits_of_its_hash() {
    let text = add_principal("", &principal("a", &[1, 2], &[])).unwrap();
    for digits in ["0000000", "00000003"] {
        let error = rejection(remove_token(&text, "a", digits));
        assert!(
            error.contains("but 00000001, 00000002; name one"),
            "{error}"
        );
    }
    let full = add_principal("", &principal("a", &[1, 2, 3, 4, 5, 6, 7, 8], &[])).unwrap();
    assert!(rejection(add_token(&full, "a", hash(9))).contains("at most 8"));
}

#[test]
fn other_forms_are_not_changed() {
    let inline = "principal = [{ name = 'a' }, { name = 'b' }]";
    for edited in [
        add_principal(inline, &principal("c", &[1], &[])),
        add_token(inline, "a", hash(1)),
        remove_principal(inline, "a"),
    ] {
        assert!(rejection(edited).ends_with("edit the file by hand"));
    }
}

/// One change, of the principals and tokens with these numbers.
#[derive(Clone, Copy, Debug)]
enum Edit {
    AddPrincipal,
    AddToken(usize),
    RemovePrincipal(usize),
    RemoveToken(usize, usize),
}

fn any_edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        Just(Edit::AddPrincipal),
        (0..8_usize).prop_map(Edit::AddToken),
        (0..8_usize).prop_map(Edit::RemovePrincipal),
        (0..8_usize, 0..8_usize).prop_map(|(at, token)| Edit::RemoveToken(at, token)),
    ]
}

/// Writes a table as a person may.
fn table_by_hand(n: usize, tokens: usize, style: u8) -> String {
    let has = |bit: u8| style >> bit & 1 == 1;
    let (first, last) = (n * 100, n * 100 + tokens);
    let hashes: Vec<_> = (first..last).map(|n| format!("'{}'", hash(n))).collect();
    let hashes = match has(0) {
        true => format!("[ {} ]", hashes.join(" , ")),
        false => format!("[\n  {},# {n}\n]", hashes.join(", # of [x]\n  ")).replace("  ,", ""),
    };
    let mut text = String::new();
    if has(1) {
        text += &format!("# free {n}\n\n");
    }
    text += &format!("# about p{n}.\n  [[ principal ]] # table\n");
    if has(2) {
        text += "next = ['orders'] # next\n\n";
    }
    if tokens > 0 || has(3) {
        text += &format!("sha256 = {hashes} # tokens\n");
    }
    text += &format!("name = 'p{n}'");
    text += if has(4) { "\n\n" } else { "\n" };
    text
}

proptest! {
    #[test]
    fn edits_change_what_they_should_and_keep_comments(
        tables in proptest::collection::vec((0..3_usize, 0..32_u8), 2..5),
        edits in proptest::collection::vec(any_edit(), 1..12),
    ) {
        let tables = tables.into_iter().enumerate();
        let mut text: String = tables
            .map(|(n, (tokens, style))| table_by_hand(n, tokens, style))
            .collect();
        let free_comments = text.matches("# free").count();
        let mut wanted = AccessFile::parse(&text).unwrap().principals().to_vec();
        for (step, edit) in edits.into_iter().enumerate() {
            let new = 1_000 + step;
            let edited = match edit {
                Edit::AddPrincipal => {
                    wanted.push(principal(&format!("n{new}"), &[new], &[]).into());
                    add_principal(&text, &wanted[wanted.len() - 1])
                }
                Edit::AddToken(at) => {
                    let index = at % wanted.len();
                    if wanted[index].hashes.len() == 8 {
                        continue;
                    }
                    Arc::make_mut(&mut wanted[index]).hashes.insert(0, hash(new));
                    add_token(&text, &wanted[index].name, hash(new))
                }
                Edit::RemovePrincipal(at) => {
                    if wanted.len() == 1 {
                        continue;
                    }
                    let gone = wanted.remove(at % wanted.len());
                    remove_principal(&text, &gone.name)
                }
                Edit::RemoveToken(at, token) => {
                    let index = at % wanted.len();
                    let owner = Arc::make_mut(&mut wanted[index]);
                    if owner.hashes.is_empty() {
                        continue;
                    }
                    let gone = owner.hashes.remove(token % owner.hashes.len());
                    remove_token(&text, &owner.name, &gone.to_string()[..12])
                }
            };
            text = edited.map_err(|error| TestCaseError::fail(format!("{error}:\n{text}")))?;
            let file = AccessFile::parse(&text).unwrap();
            prop_assert_eq!(file.principals(), &wanted[..]);
        }
        prop_assert_eq!(text.matches("# free").count(), free_comments);
        for n in 0..5 {
            let name = format!("p{n}");
            let is_left = wanted.iter().any(|principal| principal.name == name);
            prop_assert_eq!(text.contains(&format!("# about {name}.")), is_left, "{}", text);
        }
    }
}
