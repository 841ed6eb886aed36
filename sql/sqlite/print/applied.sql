insert into {version} (box, name, version, hash) values ({table_text}, {script_name}, {script_version}, {script_hash});
