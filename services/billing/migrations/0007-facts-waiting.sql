-- It is looked into far more often than added to: each look would read what is not yet in its place.
alter index facts_waiting set (fastupdate = off);
