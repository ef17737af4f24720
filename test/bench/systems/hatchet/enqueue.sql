\set g random(0, 999)
@ENQUEUE@;
