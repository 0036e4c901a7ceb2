"""The commands of ``logbus``, a module each; :mod:`logbus.cli.app` names them and imports a command when it runs."""
