grant execute on {function} to {role};
