"""
Apache Kafka's jars, fetched from Maven Central with the ordinary ``mvn`` client into a cache outside the checkout.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

#: The release compared with unless told otherwise.
KAFKA_VERSION = "4.3.1"

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>benchmarks</groupId><artifactId>kafka</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version></dependency>
<dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId>
<version>2.25.4</version></dependency>
</dependencies></project>
"""


def kafka_jars(version: str, cache: Path) -> Path:
    """
    The directory with the broker's jars and all they need, fetched unless it is there.

    :raise RuntimeError: Maven is absent or could not resolve the version.
    """
    home = cache / f"kafka-{version}"
    jars = home / "jars"
    if (home / "complete").exists():
        return jars
    home.mkdir(parents=True, exist_ok=True)
    (home / "pom.xml").write_text(_POM.format(version=version))
    command = ["mvn", "-B", "-q", "dependency:copy-dependencies", f"-DoutputDirectory={jars}", "-DincludeScope=runtime"]
    try:
        done = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=900, check=False)
    except FileNotFoundError:
        raise RuntimeError("mvn is not installed: it fetches Apache Kafka (Debian: apt-get install maven)") from None
    if done.returncode:
        raise RuntimeError(f"mvn could not fetch Kafka {version}:\n{done.stdout[-2000:]}")
    (home / "complete").touch()
    return jars
