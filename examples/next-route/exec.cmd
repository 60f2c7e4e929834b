@rem What "exec" in the scripts of package.json means to cmd.exe; in sh it is built in and replaces the shell.
@%*
