//! The release: the binary, its software bill of materials (SBOM), and checksums of both.

use crate::{
    cargo,
    deny::{Package, array, metadata, packages},
    print_error, print_text, root,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

const RELEASED: &str = "consign-cli";

/// Builds the binary, and puts it into `target/dist` with its SBOM and `SHA256SUMS`.
pub(crate) fn release() -> bool {
    if !cargo(&["build", "--release", "--locked", "-p", RELEASED]) {
        return false;
    }
    let Some(metadata) = metadata_of_build() else { return false };
    let dist = root().join("target/dist");
    match write_release(&dist, &metadata) {
        Ok(()) => {
            print_text(&format!("{} holds the binary, its SBOM and their sums\n", dist.display()))
        }
        Err(error) => print_error(&format!("{} cannot be written: {error}", dist.display())),
    }
}

/// The packages and features of a build for this machine.
fn metadata_of_build() -> Option<Value> {
    let output = Command::new("rustc").arg("-vV").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let platform = text.lines().find_map(|line| line.strip_prefix("host: "))?;
    metadata(&["--filter-platform", platform])
}

fn write_release(dist: &Path, metadata: &Value) -> io::Result<()> {
    fs::create_dir_all(dist)?;
    let binary = dist.join("consign");
    fs::copy(built_binary(metadata)?, &binary)?;
    let bom = dist.join("consign.cdx.json");
    fs::write(&bom, serde_json::to_string_pretty(&sbom(metadata))? + "\n")?;
    let mut sums = String::new();
    for (name, path) in [("consign", &binary), ("consign.cdx.json", &bom)] {
        sums += &format!("{}  {name}\n", sum(path)?);
    }
    fs::write(dist.join("SHA256SUMS"), sums)
}

/// The path of the binary: `CARGO_TARGET_DIR` may name another folder than `target`.
fn built_binary(metadata: &Value) -> io::Result<PathBuf> {
    let folder = metadata["target_directory"].as_str();
    let folder = folder.ok_or_else(|| io::Error::other("cargo names no target directory"))?;
    Ok(Path::new(folder).join("release/consign"))
}

fn sum(path: &Path) -> io::Result<String> {
    Ok(hex(&Sha256::digest(fs::read(path)?)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A CycloneDX 1.5 document of the binary's dependencies on this platform. It leaves out what only
/// builds or tests the binary, such as procedural macros and their dependencies. It has neither a
/// date nor a random number, so that the same `Cargo.lock` gives the same document.
fn sbom(metadata: &Value) -> Value {
    let packages = packages(metadata);
    let by_id: BTreeMap<&str, &Package> =
        packages.iter().map(|package| (package.id.as_str(), package)).collect();
    let edges = edges(metadata);
    let released = packages.iter().find(|package| package.name == RELEASED);
    let released = released.expect("the workspace has the package");
    let components_used = reachable(&released.id, &edges);
    let component = |id: &&str| component(by_id[*id]);
    let components: Vec<Value> =
        components_used.iter().filter(|id| **id != released.id).map(component).collect();
    let dependencies: Vec<Value> = components_used
        .iter()
        .map(|id| {
            let on: BTreeSet<String> =
                edges[*id].iter().map(|id| reference(by_id[id.as_str()])).collect();
            json!({"ref": reference(by_id[*id]), "dependsOn": on})
        })
        .collect();
    let mut main = self::component(released);
    main["type"] = "application".into();
    main["name"] = "consign".into();
    json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": main},
        "components": components,
        "dependencies": dependencies,
    })
}

fn component(package: &Package) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": reference(package),
        "name": package.name,
        "version": package.version.to_string(),
        "purl": reference(package),
    });
    if let Some(license) = &package.license {
        // Cargo's old form of a choice is not an SPDX expression.
        component["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
    }
    component
}

/// The package URL; a `+` in a version is escaped in it.
fn reference(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version.to_string().replace('+', "%2B"))
}

/// Which package uses which at run time, by id. Procedural macros run in the compiler, but cargo
/// lists them among the ordinary dependencies.
fn edges(metadata: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let macros = procedural_macros(metadata);
    let is_ordinary =
        |dep: &Value| array(&dep["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
    let edge = |node: &Value| {
        let ordinary = array(&node["deps"]).iter().filter(|dep| is_ordinary(dep));
        let ids = ordinary.filter_map(|dep| dep["pkg"].as_str());
        let used = ids.filter(|id| !macros.contains(id)).map(str::to_owned).collect();
        (node["id"].as_str().unwrap_or_default().to_owned(), used)
    };
    array(&metadata["resolve"]["nodes"]).iter().map(edge).collect()
}

fn procedural_macros(metadata: &Value) -> BTreeSet<&str> {
    let is_macro = |target: &Value| array(&target["kind"]).iter().any(|kind| kind == "proc-macro");
    let macros = array(&metadata["packages"])
        .iter()
        .filter(|package| array(&package["targets"]).iter().any(is_macro));
    macros.filter_map(|package| package["id"].as_str()).collect()
}

fn reachable<'a>(
    from: &'a str,
    edges: &'a BTreeMap<String, BTreeSet<String>>,
) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::from([from]);
    let mut next = vec![from];
    while let Some(id) = next.pop() {
        let new = edges[id].iter().map(String::as_str).filter(|id| seen.insert(id));
        next.extend(new.collect::<Vec<_>>());
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sbom_lists_exactly_the_components_of_the_binary() {
        let bom = sbom(&metadata_of_build().unwrap());
        assert_eq!(bom["bomFormat"], "CycloneDX");
        let of = |field| {
            let components = bom["components"].as_array().unwrap().iter();
            components
                .map(|component| component[field].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        let names = of("name");
        for used in ["tokio", "rustls", "libsqlite3-sys", "consign-engine"] {
            assert!(names.iter().any(|name| name == used), "{used} is missing");
        }
        let build_and_tests = ["proptest", "rcgen", "consign-crash-disk", "cc", "xtask", "shuttle"];
        let macros = ["serde_derive", "async-trait", "tokio-macros", "syn", "quote", "proc-macro2"];
        for outside in build_and_tests.iter().chain(&macros).chain(&["windows-sys"]) {
            assert!(!names.iter().any(|name| name == outside), "{outside} is in no binary");
        }
        let references: BTreeSet<String> = of("bom-ref").into_iter().collect();
        assert_eq!(references.len(), names.len(), "each component has a reference of its own");
        for dependency in bom["dependencies"].as_array().unwrap() {
            for on in dependency["dependsOn"].as_array().unwrap() {
                assert!(references.contains(on.as_str().unwrap()), "{on} is no component");
            }
        }
    }

    #[test]
    fn packages_that_only_macros_need_are_not_in_the_sbom() {
        let package = |id: &str, kind: &str| json!({"id": id, "targets": [{"kind": [kind]}]});
        let node = |id: &str, deps: &[(&str, Value)]| {
            let dep =
                |(id, kind): &(&str, Value)| json!({"pkg": id, "dep_kinds": [{"kind": kind}]});
            json!({"id": id, "deps": deps.iter().map(dep).collect::<Vec<_>>()})
        };
        let (ordinary, build) = (|| Value::Null, json!("build"));
        let metadata = json!({
            "packages": [
                package("app", "bin"), package("derive", "proc-macro"), package("parser", "lib"),
                package("both", "lib"), package("builder", "lib"),
            ],
            "resolve": {"nodes": [
                node("app", &[("derive", ordinary()), ("both", ordinary()), ("builder", build)]),
                node("derive", &[("parser", ordinary()), ("both", ordinary())]),
                node("parser", &[]),
                node("both", &[]),
                node("builder", &[]),
            ]},
        });
        assert_eq!(reachable("app", &edges(&metadata)), BTreeSet::from(["app", "both"]));
    }

    #[test]
    fn the_binary_is_taken_from_where_cargo_builds() {
        let elsewhere = json!({"target_directory": "/elsewhere"});
        assert_eq!(built_binary(&elsewhere).unwrap(), Path::new("/elsewhere/release/consign"));
        assert!(built_binary(&json!({})).is_err());
        assert!(built_binary(&metadata_of_build().unwrap()).is_ok(), "cargo names the folder");
    }

    #[test]
    fn sums_are_those_that_sha256sum_gives() {
        let digest = Sha256::digest(b"abc");
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex(&digest), expected);
    }
}
