//! Compiles the attacker: one static executable, which runs in any sandbox whatever libraries are shown there.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=payload");
    let directory = set("OUT_DIR");
    let program = Path::new(&directory).join("attacker");
    let kind = kind();
    if kind != Kind::Whole {
        // What is embedded then is nothing, and the library says so when it is asked to attack.
        std::fs::write(&program, b"").expect("the build directory can be written");
    }
    match kind {
        Kind::Nothing => {}
        Kind::Checked => compile(&["--emit=metadata", "--out-dir"], directory.as_ref()),
        Kind::Whole => compile(&["-o"], &program),
    }
}

/// What can be had of the attacker here.
#[derive(PartialEq, Eq)]
enum Kind {
    /// The attacks are on Linux sandboxes; or there is no library to compile for this target.
    Nothing,
    /// Another machine's, for which there is no linker: its types are checked.
    Checked,
    Whole,
}

fn kind() -> Kind {
    if set("CARGO_CFG_TARGET_OS") != "linux" {
        return Kind::Nothing;
    }
    // Cargo passes on the linker that was configured for the target.
    if set("HOST") == set("TARGET") || env::var_os("RUSTC_LINKER").is_some() {
        return Kind::Whole;
    }
    let asked =
        Command::new(set("RUSTC")).args(["--print=target-libdir", "--target"]).arg(set("TARGET")).output();
    let libraries = asked.map(|asked| String::from_utf8_lossy(&asked.stdout).trim().to_owned());
    match libraries {
        Ok(libraries) if Path::new(&libraries).is_dir() => Kind::Checked,
        _ => Kind::Nothing,
    }
}

fn compile(output: &[&str], to: &Path) {
    let mut command = Command::new(set("RUSTC"));
    // Static linking takes a named target: without one it would also apply to what runs while compiling.
    command.args(["--edition=2024", "--crate-name=attacker", "--target"]).arg(set("TARGET"));
    command.args(["-Ctarget-feature=+crt-static", "-Cpanic=abort", "-Copt-level=s", "-Cstrip=symbols"]);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut option = OsString::from("-Clinker=");
        option.push(linker);
        command.arg(option);
    }
    let status = command.args(output).arg(to).arg("payload/main.rs").status();
    let status = status.expect("the compiler can be started");
    assert!(status.success(), "the attacker does not compile: {status}");
}

/// Cargo sets it.
fn set(name: &str) -> OsString {
    env::var_os(name).unwrap_or_else(|| panic!("{name} is not set: this is a build script of cargo's"))
}
