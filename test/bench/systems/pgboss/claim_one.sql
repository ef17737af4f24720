@FETCH_1@ \gset
@COMPLETE_1@;
