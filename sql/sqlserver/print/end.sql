commit transaction;
go
