//! Compiles programs in C, C++ and C# that use the libraries, and runs them. A language whose tools are missing is named.

mod support;

use serde_json::{json, Value};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{jws, shared};

/// The folder of the libraries that `cargo test` has built.
fn libraries() -> PathBuf {
    env::current_exe().unwrap().parent().unwrap().to_path_buf()
}

fn source(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

/// A new folder for the results of one test.
fn folder(name: &str) -> PathBuf {
    let folder = env::temp_dir().join(format!("licensing-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Answers of the service: a token, the keys of an unpinned client, a list; and the folder.
fn arguments(folder: &Path) -> [String; 4] {
    let token = json!({
        "activation_id": "act_01kahz5k00e000000000000003",
        "licence_id": "lic_01kahz5k00e000000000000002",
        "token": jws("token"),
    });
    let first = shared()["keys"]["first"].as_object().unwrap().clone();
    let public: Value = first.into_iter().filter(|(name, _)| name != "d").collect();
    let list = json!({ "signature": jws("list_10") });
    [
        token.to_string(),
        json!({ "keys": [public] }).to_string(),
        list.to_string(),
        folder.display().to_string(),
    ]
}

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        println!("skipped, because {program} is not installed");
    }
    found
}

/// Runs a command, which must succeed; returns what it printed.
fn run(command: &mut Command) -> String {
    let output = command.env("LD_LIBRARY_PATH", libraries()).output().expect("the program runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {text}{errors}", output.status);
    text
}

/// Compiles a program with the shared or the static library, in a new folder.
fn compiled(compiler: &str, standard: &str, file: &str, is_static: bool) -> (PathBuf, PathBuf) {
    let folder = folder(&format!("{}-{is_static}", file.replace(['/', '.'], "-")));
    let program = folder.join("program");
    let mut command = Command::new(compiler);
    command.args([standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-g", "-pthread", "-I"]);
    command.arg(source("include")).arg(source(file)).arg("-o").arg(&program);
    if is_static {
        command.arg(libraries().join("liblicensing.a")).args(["-lm", "-ldl"]);
    } else {
        command.arg("-L").arg(libraries()).arg("-llicensing");
    }
    run(&mut command);
    (program, folder)
}

#[test]
fn a_program_in_c_uses_the_shared_library_from_several_threads_and_loses_no_memory() {
    if !has("cc") {
        return;
    }
    let (program, folder) = compiled("cc", "-std=c11", "tests/c_interface.c", false);
    let arguments = arguments(&folder);
    assert_eq!(run(Command::new(&program).args(&arguments)), "the C interface is right\n");
    let is_full = std::env::var("TEST_FULL").is_ok_and(|value| value == "1");
    if is_full && has("valgrind") {
        let checks = ["--quiet", "--error-exitcode=1", "--leak-check=full", "--show-leak-kinds=definite"];
        run(Command::new("valgrind")
            .args(checks)
            .arg("--errors-for-leak-kinds=definite")
            .arg(&program)
            .args(&arguments));
    }
}

#[test]
fn a_program_in_c_uses_the_static_library() {
    if has("cc") {
        let (program, folder) = compiled("cc", "-std=c11", "tests/c_interface.c", true);
        run(Command::new(&program).args(arguments(&folder)));
    }
}

#[test]
fn a_program_in_cpp_uses_the_wrapper() {
    if has("c++") {
        let (program, folder) = compiled("c++", "-std=c++17", "tests/c_interface.cpp", false);
        assert_eq!(run(Command::new(&program).args(arguments(&folder))), "the C++ wrapper is right\n");
    }
}

#[test]
fn a_program_in_csharp_uses_the_wrapper() {
    if !has("mcs") || !has("mono") {
        return;
    }
    let folder = folder("csharp");
    let program = folder.join("Program.exe");
    let mut compile = Command::new("mcs");
    compile.args(["-langversion:7.2", "-warnaserror"]).arg(format!("-out:{}", program.display()));
    run(compile.arg(source("csharp/Licensing.cs")).arg(source("tests/CInterface.cs")));
    assert_eq!(run(Command::new("mono").arg(&program).args(arguments(&folder))), "the C# wrapper is right\n");
}

/// The program of the README in a language.
fn program_of_readme(language: &str) -> String {
    let readme = std::fs::read_to_string(source("README.md")).unwrap();
    let (_, program) = readme.split_once(&format!("```{language}\n")).expect("the README has a program");
    program.split_once("```").unwrap().0.to_string()
}

#[test]
fn the_programs_of_the_readme_compile() {
    let folder = folder("readme");
    for (compiler, language, arguments) in [
        ("cc", "c", vec!["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]),
        ("c++", "cpp", vec!["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]),
        ("mcs", "csharp", vec!["-langversion:7.2", "-warnaserror", "-target:library"]),
    ] {
        if !has(compiler) {
            continue;
        }
        let file = folder.join(format!("program.{language}"));
        std::fs::write(&file, program_of_readme(language)).unwrap();
        let mut compile = Command::new(compiler);
        match language {
            // A compiler replaces the file that it is given, even a device.
            "csharp" => {
                let out = format!("-out:{}", folder.join("program.dll").display());
                compile.args(arguments).arg(out).arg(source("csharp/Licensing.cs")).arg(file)
            }
            _ => compile.args(arguments).arg("-I").arg(source("include")).arg(file),
        };
        run(&mut compile);
    }
}
