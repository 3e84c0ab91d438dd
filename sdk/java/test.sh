#!/bin/sh
# Compiles and runs the tests with a JDK and Debian's package `junit5` alone. Maven does the same elsewhere.
#
# usage: ./test.sh FOLDER           compiles into the folder, and runs all tests
#        ./test.sh FOLDER compile   compiles only
#        ./test.sh FOLDER TEST…     runs these tests, which are compiled
set -eu
cd "$(dirname "$0")"
classes=$1
shift
jars=
for name in junit-jupiter-api junit-jupiter-engine junit-jupiter-params junit-platform-commons junit-platform-console \
    junit-platform-engine junit-platform-launcher junit-platform-reporting apiguardian-api opentest4j picocli \
    univocity-parsers; do
    jars="$jars:/usr/share/java/$name.jar"
done
# Short runs gain nothing from the compiler for long ones. The JVMs that tests start have the same options.
export JAVA_TOOL_OPTIONS='-XX:TieredStopAtLevel=1 -XX:+UseSerialGC'
case "$*" in
'' | compile)
    rm -rf "$classes"
    javac -Xlint:all,-path -Werror -encoding UTF-8 -d "$classes" -cp "$jars" \
        src/main/java/licensing/*.java src/test/java/licensing/*.java
    ;;
esac
case "$*" in
compile) exit ;;
'') set -- --scan-classpath "$classes" ;;
*) for test; do set -- "$@" --select-class "licensing.$test" && shift; done ;;
esac
exec java -cp "$classes$jars" org.junit.platform.console.ConsoleLauncher --disable-banner --details=summary "$@"
