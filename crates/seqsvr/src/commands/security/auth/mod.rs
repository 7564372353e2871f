//! `auth add|remove|list|check|can`: keeps the file of principals. No command calls a server.

mod principals_file;

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, bail};
pub(in crate::commands) use principals_file::read_principals;
use principals_file::{LockedFile, wrong_file};
use seqsvr_access::{
    AccessFile, EditError, GrantPattern, GrantTarget, Grants, NamespaceRight, Principal, Secret,
    SecretHash, add_principal, add_token, remove_principal, remove_token,
};
use serde_json::json;

use crate::cli::{
    AddAuthArgs, AnyRight, AuthCommand, CanAuthArgs, CheckAuthArgs, ListAuthArgs, RemoveAuthArgs,
};
use crate::output::exit_code::BadInput;
use crate::output::{log, stdout};
use crate::part_file::{create_part_file, publish_new, reject_existing};
use crate::secret_file::read_secret_file;

/// What a file with a token is, for errors.
const TOKEN_FILE: &str = "a token";

pub(in crate::commands) fn run(command: AuthCommand) -> anyhow::Result<()> {
    match command {
        AuthCommand::Add(args) => add(args),
        AuthCommand::Remove(args) => remove(&args),
        AuthCommand::List(args) => list(&args),
        AuthCommand::Check(args) => check(&args),
        AuthCommand::Can(args) => answer_can(&args),
    }
}

fn add(args: AddAuthArgs) -> anyhow::Result<()> {
    let file = LockedFile::open(&args.file)?;
    let token = match &args.out {
        Some(out) => {
            reject_existing(out, TOKEN_FILE)?;
            Some(Secret::generate()?)
        }
        None => None,
    };
    let hash = token.as_ref().map(Secret::hash);
    let grants = Grants {
        next: args.next,
        current: args.current,
        raise: args.raise,
        cluster: args.cluster,
    };
    let name = args.principal;
    let (edited, rights) = match (grants.is_empty(), hash) {
        (false, hash) => {
            let rights = describe_rights(&grants);
            let new = Principal {
                name: name.clone(),
                hashes: hash.into_iter().collect(),
                grants,
            };
            (add_principal(file.text(), &new), rights)
        }
        (true, Some(hash)) => (add_token(file.text(), &name, hash), "as before".to_owned()),
        (true, None) => bail!(BadInput(format!(
            "nothing to add to {name}; name its rights with --next, --current, --raise or --cluster, or a file for one more token with --out"
        ))),
    };
    let edited = edited.map_err(|error| match error {
        EditError::NoPrincipal(_) => wrong_file(
            &args.file,
            format_args!(
                "{error}; a new one needs rights: --next, --current, --raise or --cluster"
            ),
        ),
        error => wrong_file(&args.file, error),
    })?;
    write_both(file, &edited, token.as_ref().zip(args.out.as_deref()))?;
    stdout::print_line(format_args!("file       {}", args.file.display()))?;
    stdout::print_line(format_args!("principal  {name}"))?;
    stdout::print_line(format_args!("rights     {rights}"))?;
    match (hash, args.out) {
        (Some(hash), Some(out)) => {
            let (out, short) = (out.display(), hash.short());
            stdout::print_line(format_args!("token      {out}, sha256 {short}"))?;
            stdout::print_line(format_args!(
                "keep       only its holder needs the token: move {out} there"
            ))?;
        }
        _ => stdout::print_line(format_args!(
            "token      none: only a certificate client/{name} speaks for it"
        ))?,
    }
    Ok(())
}

/// Writes the token, and then the file that has its hash. Without the hash a token is good for
/// nothing.
fn write_both(
    file: LockedFile,
    edited: &str,
    token: Option<(&Secret, &Path)>,
) -> anyhow::Result<()> {
    let Some((token, out)) = token else {
        return file.replace(edited);
    };
    let part = create_part_file(out)?;
    let written = writeln!(part.as_file(), "{}", token.expose());
    written
        .and_then(|()| part.as_file().sync_all())
        .with_context(|| format!("cannot write {}", part.path().display()))?;
    publish_new(part, out, TOKEN_FILE)?;
    file.replace(edited).inspect_err(|_| {
        // If it cannot be deleted, the next command says that it exists.
        let _ = fs::remove_file(out);
    })
}

fn remove(args: &RemoveAuthArgs) -> anyhow::Result<()> {
    // It must exist, and be right.
    read_principals(&args.file)?;
    let file = LockedFile::open(&args.file)?;
    let name = &args.principal;
    let edited = match &args.token {
        Some(digits) => remove_token(file.text(), name, digits),
        None => remove_principal(file.text(), name),
    };
    let edited = edited.map_err(|error| wrong_file(&args.file, error))?;
    file.replace(&edited)?;
    stdout::print_line(format_args!("file       {}", args.file.display()))?;
    match &args.token {
        Some(digits) => stdout::print_line(format_args!("removed    token {digits} of {name}"))?,
        None => stdout::print_line(format_args!("removed    {name}"))?,
    }
    Ok(())
}

fn list(args: &ListAuthArgs) -> anyhow::Result<()> {
    for principal in read_principals(&args.file)?.principals() {
        if args.json {
            stdout::print_json(to_json(principal))?;
            continue;
        }
        let hashes: Vec<String> = principal.hashes.iter().map(SecretHash::short).collect();
        let tokens = match &*hashes.join(", ") {
            "" => "no token".to_owned(),
            hashes => format!("tokens {hashes}"),
        };
        let rights = describe_rights(&principal.grants);
        stdout::print_line(format_args!("{}: {rights}; {tokens}", principal.name))?;
    }
    Ok(())
}

fn check(args: &CheckAuthArgs) -> anyhow::Result<()> {
    let file = read_principals(&args.file)?;
    stdout::print_line(format_args!("{}", summarize(&args.file, &file)))?;
    Ok(())
}

/// Returns what a file has, in a line.
pub(in crate::commands) fn summarize(path: &Path, file: &AccessFile) -> String {
    let principals = file.principals();
    let tokens: usize = principals
        .iter()
        .map(|principal| principal.hashes.len())
        .sum();
    format!(
        "{}: principals {}, tokens {tokens}",
        path.display(),
        principals.len()
    )
}

fn answer_can(args: &CanAuthArgs) -> anyhow::Result<()> {
    let file = read_principals(&args.file)?;
    let principal = match (&args.principal, &args.token_file) {
        (Some(name), _) => file
            .principal(name)
            .ok_or_else(|| format!("no principal {name:?}; `seqsvr auth list` shows their names")),
        (None, Some(path)) => {
            let token = read_token(path)?;
            file.holder_of(&token).ok_or_else(|| {
                format!(
                    "no principal has the token of {}; it was removed, or is for another file",
                    path.display()
                )
            })
        }
        (None, None) => Err("no principal; name one with --principal or --token-file".to_owned()),
    };
    let principal = principal.map_err(|why| wrong_file(&args.file, why))?;
    let (name, grants) = (&principal.name, &principal.grants);
    let (has_right, what) = match (args.right, &args.name) {
        (AnyRight::OnNamespace(right), Some(on)) => {
            let target = GrantTarget::parse(on).map_err(BadInput)?;
            let has_right = grants.has_right_on(right, target);
            (has_right, format!("{} on {on}", right.name()))
        }
        (AnyRight::OnCluster(right), None) => (grants.has_right(right), right.name().to_owned()),
        (AnyRight::OnNamespace(right), None) => bail!(BadInput(format!(
            "{0} on what? write a namespace after {0}, or @ids/NAME for a family of ids",
            right.name()
        ))),
        (AnyRight::OnCluster(right), Some(on)) => bail!(BadInput(format!(
            "{} is a right on the cluster; write no {on} after it",
            right.name()
        ))),
    };
    if !has_right {
        let rights = describe_rights(grants);
        bail!("no: {name} does not have the right {what}; its rights are {rights}");
    }
    stdout::print_line(format_args!("yes: {name} has the right {what}"))?;
    Ok(())
}

fn read_token(path: &Path) -> anyhow::Result<Secret> {
    let (token, open_mode) = read_secret_file("--token-file", path)?;
    if let Some(mode) = open_mode {
        log::print_warning(format_args!(
            "{}: every user of this machine may read or write the token (mode {mode:04o}); run `chmod 600` on it as its owner",
            path.display()
        ));
    }
    let token = Secret::parse(&token);
    token.map_err(|error| wrong_file(path, error).into())
}

/// Returns all rights in words.
fn describe_rights(grants: &Grants) -> String {
    let of_namespaces = NamespaceRight::ALL.map(|right| {
        let patterns = grants.patterns(right).iter();
        let patterns: Vec<String> = patterns.map(ToString::to_string).collect();
        (right.name(), patterns.join(", "))
    });
    let cluster: Vec<&str> = grants.cluster.iter().map(|right| right.name()).collect();
    let all = of_namespaces
        .into_iter()
        .chain([("cluster", cluster.join(", "))]);
    let granted = all.filter(|(_, names)| !names.is_empty());
    let parts: Vec<String> = granted
        .map(|(right, names)| format!("{right} {names}"))
        .collect();
    match &*parts.join("; ") {
        "" => "none".to_owned(),
        parts => parts.to_owned(),
    }
}

fn to_json(principal: &Principal) -> serde_json::Value {
    let texts =
        |items: &[GrantPattern]| -> Vec<String> { items.iter().map(ToString::to_string).collect() };
    let grants = &principal.grants;
    let hashes: Vec<String> = principal.hashes.iter().map(ToString::to_string).collect();
    let cluster: Vec<&str> = grants.cluster.iter().map(|right| right.name()).collect();
    json!({
        "name": principal.name,
        "sha256": hashes,
        "next": texts(&grants.next),
        "current": texts(&grants.current),
        "raise": texts(&grants.raise),
        "cluster": cluster,
    })
}
